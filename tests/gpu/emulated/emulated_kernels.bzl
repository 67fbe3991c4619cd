"""Compiles .cu.cc files for the emulated GPU: nvcc's host objects, and its PTX as C++."""

load("@cuda//:defs.bzl", "CUDA_DIR", "CUDA_ENABLED", "CUDA_HOST_COMPILER", "CUDA_VERSION", "PYTHON")

# Both come from one call of nvcc, because the names of kernels contain a number that it makes up.
_COMMAND = """
set -euo pipefail
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
{nvcc} -x=cu -std=c++17 -O3 -fmad=false -ccbin={compiler} -Xcompiler=-fPIC -I. --keep \
  --keep-dir="$kept" -gencode=arch=compute_90,code=compute_90 -c {source} -o {object}
PYTHONDONTWRITEBYTECODE=1 {python} {translator} "$kept"/*.ptx {kernels}
"""

def _emulated_kernels_impl(ctx):
    outputs = []
    for source in ctx.files.srcs:
        stem = source.basename[:-len(".cu.cc")]
        obj = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, stem))
        kernels = ctx.actions.declare_file("%s/%s_kernels.cc" % (ctx.label.name, stem))
        ctx.actions.run_shell(
            outputs = [obj, kernels],
            inputs = [source] + ctx.files.hdrs + ctx.files._translator,
            command = _COMMAND.format(
                nvcc = CUDA_DIR + "/bin/nvcc",
                compiler = CUDA_HOST_COMPILER,
                source = source.path,
                object = obj.path,
                python = PYTHON,
                translator = ctx.files._translator[0].path,
                kernels = kernels.path,
            ),
            env = {"CONDACC_CUDA_VERSION": CUDA_VERSION, "PATH": "/usr/bin:/bin"},
            mnemonic = "TranslateKernels",
            progress_message = "Compiling %s for the emulated GPU" % source.short_path,
        )
        outputs += [obj, kernels]
    return [DefaultInfo(files = depset(outputs))]

_emulated_kernels = rule(
    implementation = _emulated_kernels_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu.cc"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "_translator": attr.label(default = "//tests/gpu/emulated:translator"),
    },
)

def emulated_kernels(name, srcs, hdrs, **kwargs):
    """An object and a C++ source for each of `srcs`; none where there is no CUDA."""
    _emulated_kernels(name = name, srcs = srcs if CUDA_ENABLED else [], hdrs = hdrs, **kwargs)
