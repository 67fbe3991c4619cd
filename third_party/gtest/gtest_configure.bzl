"""The installed GoogleTest as a Bazel repository; without it the C++ tests are left out."""

_PLACE = "CONDACC_GTEST_DIR"  # Holds include/gtest and, in _LIBRARIES, the archives. May be empty.
_LIBRARIES = "CONDACC_GTEST_LIB_DIR"

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_import(
    name = "main_archive",
    static_library = "libgtest_main.a",
)

cc_import(
    name = "archive",
    static_library = "libgtest.a",
)

cc_library(
    name = "gtest_main",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = ["-lpthread"],
    deps = [
        ":main_archive",
        ":archive",
    ],
)
"""

def _gtest_configure_impl(ctx):
    place = ctx.os.environ.get(_PLACE, "")
    if place:
        libraries = ctx.os.environ[_LIBRARIES]
        ctx.symlink(place + "/include/gtest", "include/gtest")
        for name in ["libgtest.a", "libgtest_main.a"]:
            ctx.symlink(libraries + "/" + name, name)
    ctx.file("defs.bzl", "GTEST_FOUND = %s\n" % bool(place), executable = False)
    ctx.file("BUILD", _BUILD if place else "", executable = False)

gtest_configure = repository_rule(
    implementation = _gtest_configure_impl,
    configure = True,
    environ = [_PLACE, _LIBRARIES],
    local = True,
)
