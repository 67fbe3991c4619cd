"""The options that compile and link the native library, whoever builds it.

Bazel loads this file, and condacc/build.py reads it as Python. So it holds constants only.
"""

# What the sources are compiled with, beside TensorFlow's own options. Those of protection are what
# Bazel passes by default.
COMPILE = [
    "-std=c++17",
    "-O2",
    "-DNDEBUG",
    "-DEIGEN_USE_THREADS",
    "-fPIC",
    # Functions of the library may call each other directly, and be inlined: nobody replaces them.
    "-fno-semantic-interposition",
    # The operator that it would call is newer than TensorFlow's libstdc++.
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
    "memory",
]

# What the objects are linked with, after TensorFlow's own options.
LINK = [
    "-Wl,--gc-sections",
    "-Wl,--exclude-libs,ALL",
    "-Wl,-z,relro,-z,now",
    "-ldl",
    "-lpthread",
    "-lrt",
]
