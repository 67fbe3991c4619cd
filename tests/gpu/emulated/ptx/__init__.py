"""Translates PTX, as nvcc emits it, to C++ that runs one thread of a kernel on the CPU.

`syntax` splits the text, `module` and `kernel` hold what is declared, the modules named `*_ops`
translate the instructions, and `cpp` writes the C++. The functions that the C++ calls are in
`runtime/`.
"""
