"""The installed CUDA toolkit as a Bazel repository; without one, the build is for CPUs only."""

_ENVIRON = [
    "CONDACC_CUDA_DIR",  # Empty: no CUDA.
    "CONDACC_CUDA_ARCHS",  # For example sm_80,sm_90,compute_90.
    "CONDACC_CUDA_VERSION",
    "CONDACC_CUDART",  # Path of libcudart_static.a.
    "CONDACC_CXX",  # nvcc's host compiler.
    "CONDACC_PYTHON",  # Translates kernels for the emulated GPU.
]

_BUILD = """
package(default_visibility = ["//visibility:public"])

filegroup(
    name = "cudart_static",
    srcs = ["libcudart_static.a"],
)

cc_import(
    name = "cudart",
    static_library = "libcudart_static.a",
)

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
)
"""

_DEFS = """
CUDA_ENABLED = {enabled}
CUDA_VERSION = "{version}"
CUDA_DIR = "{cuda_dir}"
CUDA_HOST_COMPILER = "{host_compiler}"
PYTHON = "{python}"
CUDA_ARCHS = {archs}
"""

def _cuda_configure_impl(ctx):
    values = [ctx.os.environ.get(name, "") for name in _ENVIRON]
    cuda_dir, archs, version, cudart, host_compiler, python = values
    if cuda_dir:
        ctx.symlink(cuda_dir + "/include", "include")
        ctx.symlink(cudart, "libcudart_static.a")
    ctx.file("defs.bzl", _DEFS.format(
        enabled = bool(cuda_dir),
        version = version,
        cuda_dir = cuda_dir,
        host_compiler = host_compiler,
        python = python,
        archs = [arch for arch in archs.split(",") if arch],
    ), executable = False)
    ctx.file("BUILD", _BUILD if cuda_dir else "", executable = False)

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    configure = True,
    environ = _ENVIRON,
    local = True,
)
