"""Libraries of the core: C++17 and its standard library only."""

def core_library(name, deps = []):
    """Declares a module of the core: all sources and headers of the package.

    The C++ tests depend on another library of the same sources, `checked`, in which
    CONDACC_INVARIANT() checks its conditions. A program must not contain both.

    Args:
      name: The name of the package.
      deps: The modules that this one depends on.
    """
    _module(
        name = name,
        deps = deps,
        visibility = ["//visibility:public"],
    )
    _module(
        name = "checked",
        testonly = True,
        defines = ["CONDACC_CHECK_INVARIANTS"],
        deps = [dep + ":checked" for dep in deps],
        visibility = [
            "//cc/core:__subpackages__",
            "//tests/cc:__subpackages__",
        ],
    )

    # The headers as files, for nvcc.
    native.filegroup(
        name = "headers",
        srcs = native.glob(["*.h"]),
        visibility = ["//visibility:public"],
    )

def _module(name, **kwargs):
    """Declares a library of the package.

    Floating point contraction is off, because sums are specified to the last bit.
    """
    native.cc_library(
        name = name,
        srcs = native.glob(["*.cc"], allow_empty = True),
        hdrs = native.glob(["*.h"]),
        copts = [
            "-O3",
            "-ffp-contract=off",
        ],
        linkopts = ["-lpthread"],
        **kwargs
    )
