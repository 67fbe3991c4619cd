// Function attributes, and the choice between code for all processors and code in vectors: those of
// AVX2, which only some x86-64 processors have, and those of NEON, which every aarch64 one has.
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

// The attribute of a function that is written once, for the vectors of AVX2 and of NEON, and the
// choice between it and `plain`. The attribute is not defined where there are neither.
#if defined(CONDACC_AVX2)
#define CONDACC_VECTORS CONDACC_AVX2
#define CONDACC_CHOOSE_VECTORS(plain, vectors) CONDACC_CHOOSE(plain, vectors)
#elif defined(__aarch64__) && defined(__ARM_NEON)
#define CONDACC_VECTORS
#define CONDACC_CHOOSE_VECTORS(plain, vectors) (vectors)
#else
#define CONDACC_CHOOSE_VECTORS(plain, vectors) (plain)
#endif

#endif  // CONDACC_CORE_BASE_CPU_FEATURES_H_
