"""The options that compile and link the native library, whoever builds it.

Bazel loads this file, and condacc/build.py reads it as Python. So it holds constants only.
"""

# Options of the compiler, besides TensorFlow's own. The last four are Bazel's defaults.
COMPILE = [
    "-std=c++17",
    "-O2",
    "-DNDEBUG",
    "-DEIGEN_USE_THREADS",
    "-fPIC",
    # Functions of the library may call and inline each other directly: nothing interposes them.
    "-fno-semantic-interposition",
    # Sized operator delete needs a newer libstdc++ than TensorFlow's.
    "-fno-sized-deallocation",
    # Sums are specified to the last bit.
    "-ffp-contract=off",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-omit-frame-pointer",
    "-fstack-protector",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=1",
]

# The folders of cc whose sources are compiled with -O3, and so vectorized by every compiler.
OPTIMIZED = [
    "core",
    "kernels",
    "memory",
]

# Options of the linker, after TensorFlow's own.
LINK = [
    "-Wl,--gc-sections",
    "-Wl,--exclude-libs,ALL",
    "-Wl,-z,relro,-z,now",
    "-ldl",
    "-lpthread",
    "-lrt",
]
