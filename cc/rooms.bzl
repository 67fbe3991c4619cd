"""Libraries that include TensorFlow."""

def room(name, deps = []):
    """Declares a room of the ops or of the kernels: all sources and headers of the package.

    Args:
      name: The name of the package.
      deps: The rooms and modules of the core that this one depends on.
    """
    native.cc_library(
        name = name,
        srcs = native.glob(["*.cc"]),
        hdrs = native.glob(
            ["*.h"],
            allow_empty = True,
        ),
        alwayslink = 1,
        local_defines = ["EIGEN_USE_THREADS"],
        visibility = ["//visibility:public"],
        deps = deps + ["@org_tensorflow//:headers"],
    )
