// Code for newer processors in a binary that runs on all.
#ifndef CONDACC_CORE_BASE_CPU_FEATURES_H_
#define CONDACC_CORE_BASE_CPU_FEATURES_H_

#if defined(__x86_64__)
// Functions marked so may be called only where HasAvx2().
#define CONDACC_AVX2 __attribute__((target("avx2,f16c")))

namespace condacc {

inline bool HasAvx2() {
  // Every processor with AVX2 has F16C, which not every compiler knows by name.
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

}  // namespace condacc

#define CONDACC_CHOOSE(plain, avx2) (::condacc::HasAvx2() ? (avx2) : (plain))
#else
#define CONDACC_CHOOSE(plain, avx2) (plain)
#endif

#endif  // CONDACC_CORE_BASE_CPU_FEATURES_H_
