"""The TensorFlow installed in the configured Python, as a Bazel repository.

configure.sh passes its place and version; a change of either fetches the repository again.
"""

_PLACE = "CONDACC_TF_DIR"

# The versions that the plugin was built with. tf_condacc.build_info() reads them.
_BUILD_INFO = {
    "tensorflow": "CONDACC_TF_VERSION",
    "compiler": "CONDACC_COMPILER",
    "cuda": "CONDACC_CUDA_VERSION",
    "cuda_archs": "CONDACC_CUDA_ARCHS",
    "version": "CONDACC_VERSION",
}

_BUILD = """
package(default_visibility = ["//visibility:public"])

exports_files(["build_info.json"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"], exclude = ["include/external/**"]),
    defines = [
        "EIGEN_MAX_ALIGN_BYTES=64",
        "_GLIBCXX_USE_CXX11_ABI=1",
    ],
    includes = ["include"],
)

# Named by options, since Bazel would give libraries a path to look for an import in. TensorFlow has
# loaded its framework before it loads a plugin.
cc_library(
    name = "framework",
    linkopts = [
        "'-L{place}'",
        "-l:libtensorflow_framework.so.2",
    ],
)
"""

def _json(name, value):
    if name == "cuda_archs":
        return "[%s]" % ", ".join(["\"%s\"" % arch for arch in value.split(",") if arch])
    return "\"%s\"" % value if value else "null"

def _tensorflow_configure_impl(ctx):
    place = ctx.os.environ.get(_PLACE, "")
    if not place:
        fail("TensorFlow is not configured: run ./configure.sh")
    ctx.symlink(place + "/include", "include")
    info = [
        "  \"%s\": %s" % (name, _json(name, ctx.os.environ.get(variable, "")))
        for name, variable in _BUILD_INFO.items()
    ]
    ctx.file("build_info.json", "{\n%s\n}\n" % ",\n".join(info), executable = False)
    ctx.file("BUILD", _BUILD.replace("{place}", place), executable = False)

tensorflow_configure = repository_rule(
    implementation = _tensorflow_configure_impl,
    configure = True,
    environ = [_PLACE] + _BUILD_INFO.values(),
    local = True,
)
