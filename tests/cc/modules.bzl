"""C++ tests without TensorFlow."""

load("@gtest//:defs.bzl", "GTEST_FOUND")

def core_tests(one_thread = [], deps = []):
    """Declares a test for each source `X_test.cc` of the package.

    The package's headers are the library `support`, and as files `headers`.

    Args:
      one_thread: The names of the tests that start no thread. The thread sanitizer leaves them out.
      deps: The libraries that the tests and their headers need.
    """
    native.filegroup(
        name = "headers",
        srcs = native.glob(["*.h"], allow_empty = True),
        visibility = ["//tests/cc:__subpackages__"],
    )
    if not GTEST_FOUND:
        return
    native.cc_library(
        name = "support",
        testonly = True,
        hdrs = native.glob(["*.h"], allow_empty = True),
        visibility = ["//tests/cc:__subpackages__"],
        deps = deps + ["@gtest//:gtest_main"],
    )
    for source in native.glob(["*_test.cc"]):
        name = source[:-len(".cc")]
        native.cc_test(
            name = name,
            timeout = "moderate",
            srcs = [source],
            copts = ["-ffp-contract=off"],
            linkstatic = 1,
            tags = ["one_thread"] if name in one_thread else [],
            deps = [":support"],
        )
