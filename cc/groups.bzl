"""Libraries whose sources are compiled as one.

A folder of cc is one translation unit, in Bazel as in condacc/build.py: most of the time of a
compiler goes to the headers of TensorFlow and of the standard library, which it then reads once.
"""

load("//cc:options.bzl", "COMPILE", "OPTIMIZED")

def group(name, exclude = [], copts = [], **kwargs):
    """Declares a library of all sources and headers of the package and of the folders in it.

    Args:
      name: The name of the library.
      exclude: Patterns of sources to leave out.
      copts: Further options of the compiler.
      **kwargs: Further arguments of the library.
    """
    sources = native.glob(["**/*.cc"], exclude = ["**/*.cu.cc"] + exclude)
    one_source(name = name + "_group", srcs = sources)
    level = ["-O3"] if native.package_name() in ["cc/" + folder for folder in OPTIMIZED] else []
    native.cc_library(
        name = name,
        srcs = [":%s_group.cc" % name],
        hdrs = native.glob(["**/*.h"], allow_empty = True),
        textual_hdrs = sources,
        copts = COMPILE + level + copts,
        **kwargs
    )

def one_source(name, srcs):
    """Declares the source NAME.cc, which includes others.

    Args:
      name: The name of the rule and of the source.
      srcs: The sources.
    """
    native.genrule(
        name = name,
        srcs = srcs,
        outs = [name + ".cc"],
        cmd = "for source in $(SRCS); do echo \"#include \\\"$$source\\\"\"; done > $@",
    )
