"""Compiles .cu.cc files with nvcc."""

load("@cuda//:defs.bzl", "CUDA_ARCHS", "CUDA_DIR", "CUDA_ENABLED", "CUDA_HOST_COMPILER", "CUDA_VERSION")

def _gencode(archs):
    """-gencode options: machine code for each sm_XX, PTX for each compute_XX."""
    return [
        "-gencode=arch=compute_%s,code=%s" % (arch.split("_")[1], arch)
        for arch in archs
    ]

def _cuda_objects_impl(ctx):
    objects = []
    for source in ctx.files.srcs:
        stem = source.basename[:-len(".cu.cc")]
        obj = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, stem))
        ctx.actions.run(
            outputs = [obj],
            inputs = [source] + ctx.files.hdrs,
            executable = CUDA_DIR + "/bin/nvcc",
            arguments = [
                "-x=cu",
                "-std=c++17",
                "-O3",
                "-fmad=false",
                "-ccbin=" + CUDA_HOST_COMPILER,
                "-Xcompiler=-fPIC",
                "-I.",
            ] + _gencode(CUDA_ARCHS) + ["-c", source.path, "-o", obj.path],
            # Names the version, so that another toolkit at the same place compiles anew.
            env = {"CONDACC_CUDA_VERSION": CUDA_VERSION, "PATH": "/usr/bin:/bin"},
            mnemonic = "NvccCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
        )
        objects.append(obj)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu.cc"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
    },
)

def cuda_objects(name, srcs, hdrs, **kwargs):
    """One object file for each of `srcs`; none where there is no CUDA."""
    _cuda_objects(name = name, srcs = srcs if CUDA_ENABLED else [], hdrs = hdrs, **kwargs)
