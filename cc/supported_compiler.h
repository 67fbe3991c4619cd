// Fails to compile with compilers that are older than those that the library was tested with.
#if defined(__clang__)
#if __clang_major__ < 14
#error "This clang is too old."
#endif
#elif defined(__GNUC__) && __GNUC__ < 11
#error "This g++ is too old."
#endif

inline int Cxx17() {
  if constexpr (true) return 0;
}
