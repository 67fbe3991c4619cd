"""C++ tests without TensorFlow."""

load("@gtest//:defs.bzl", "GTEST_FOUND")
load("//cc:groups.bzl", "one_source")
load("//cc/core:stand_ins.bzl", "CHECKED_COPTS")

def core_tests(name, deps = [], data = [], tags = [], num_shards = 1, has_stand_ins = True):
    """Declares one test program of all sources `X_test.cc` of the package.

    The sources are compiled as one, so their constants must not share names. The package's headers
    are the library `support`, and as files `headers`.

    Args:
      name: The name of the program.
      deps: The libraries that the tests and their headers need.
      data: The files that the tests read.
      tags: Tags of the program. `one_thread` says that the tests start no thread: the thread
        sanitizer leaves them out.
      has_stand_ins: Whether the tests use the core of `//cc/core:checked`, whose clock they move.
      num_shards: Into how many processes the tests are divided, if they take long.
    """
    headers = native.glob(["*.h"], allow_empty = True)
    sources = native.glob(["*_test.cc"])
    native.filegroup(
        name = "headers",
        srcs = headers,
        visibility = ["//tests/cc:__subpackages__"],
    )
    if not GTEST_FOUND:
        return
    native.cc_library(
        name = "support",
        testonly = True,
        hdrs = headers,
        textual_hdrs = sources,
        visibility = ["//tests/cc:__subpackages__"],
        deps = deps + ["@gtest//:gtest_main"],
    )
    one_source(
        name = name + "_group",
        srcs = sources,
    )
    native.cc_test(
        name = name,
        timeout = "eternal",
        srcs = [":%s_group.cc" % name],
        copts = ["-ffp-contract=off"] + (CHECKED_COPTS if has_stand_ins else []),
        data = data,
        linkstatic = 1,
        shard_count = num_shards,
        tags = tags,
        deps = [":support"],
    )
