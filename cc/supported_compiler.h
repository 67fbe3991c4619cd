// Does not compile with a compiler that is too old. configure.sh and condacc/build.py try this
// first.
#if defined(__clang__)
#if __clang_major__ < 14
#error "This clang is too old."
#endif
#elif defined(__GNUC__) && __GNUC__ < 11
#error "This g++ is too old."
#endif
