"""Libraries of the core: C++17 and its standard library only."""

def core_library(name, deps = []):
    """Declares a module of the core: all sources and headers of the package.

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
        visibility = ["//visibility:public"],
        deps = deps,
    )

    # The headers as files, for nvcc.
    native.filegroup(
        name = "headers",
        srcs = native.glob(["*.h"]),
        visibility = ["//visibility:public"],
    )
