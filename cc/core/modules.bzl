"""Libraries of the core: C++17 and its standard library only."""

# The options of sources that are run by the explorer of schedules: stand-ins take the place of the
# headers of locks and timers.
EXPLORED_COPTS = [
    "-include",
    "tests/cc/explorer/stand_ins/mutex.h",
    "-include",
    "tests/cc/explorer/stand_ins/timer_queue.h",
]

def core_library(name, deps = []):
    """Declares a module of the core: all sources and headers of the package.

    The C++ tests depend on another library of the same sources, `checked`, in which
    CONDACC_INVARIANT() checks its conditions. A third one, `explored`, is that of the explorer of
    schedules (tests/cc/explorer). A program must not contain two of them.

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
            "//cc:__subpackages__",
            "//tests/cc:__subpackages__",
        ],
    )

    _module(
        name = "explored",
        testonly = True,
        stands_in = True,
        defines = ["CONDACC_CHECK_INVARIANTS"],
        deps = [dep + ":explored" for dep in deps] + ["//tests/cc/explorer:stand_ins"],
        visibility = [
            "//cc:__subpackages__",
            "//tests/cc/explorer:__pkg__",
        ],
    )

    # The headers as files, for nvcc.
    native.filegroup(
        name = "headers",
        srcs = native.glob(["*.h"]),
        visibility = ["//visibility:public"],
    )

def _module(name, stands_in = False, **kwargs):
    """Declares a library of the package.

    Floating point contraction is off, because sums are specified to the last bit.

    Args:
      name: The name of the library.
      stands_in: Whether stand-ins take the place of locks and timers.
      **kwargs: Further arguments of the library.
    """
    native.cc_library(
        name = name,
        srcs = native.glob(
            ["*.cc"],
            exclude = ["timer_queue.cc"] if stands_in else [],
            allow_empty = True,
        ),
        hdrs = native.glob(["*.h"]),
        copts = [
            "-O3",
            "-ffp-contract=off",
        ] + (EXPLORED_COPTS if stands_in else []),
        linkopts = ["-lpthread"],
        **kwargs
    )
