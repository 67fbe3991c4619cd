// Function attributes, and the choice at run time between code for all processors and code for
// those that have AVX2.
#ifndef CONDACC_CORE_BASE_CPU_FEATURES_H_
#define CONDACC_CORE_BASE_CPU_FEATURES_H_

#define CONDACC_ALWAYS_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
// A function with this attribute may be called only if HasAvx2() returns true.
#define CONDACC_AVX2 __attribute__((target("avx2,f16c")))

namespace condacc {

inline bool HasAvx2() {
  // F16C is not checked: every processor with AVX2 has it, and not every compiler knows its name.
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

}  // namespace condacc

// Evaluates to `avx2` if the processor has AVX2, and to `plain` otherwise.
#define CONDACC_CHOOSE(plain, avx2) (::condacc::HasAvx2() ? (avx2) : (plain))
#else
#define CONDACC_CHOOSE(plain, avx2) (plain)
#endif

#endif  // CONDACC_CORE_BASE_CPU_FEATURES_H_
