// Numbers as PTX has them: registers hold bits, and division by zero is defined.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_NUMBERS_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_NUMBERS_H_

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace condacc {
namespace emulated {

template <typename To, typename From>
inline To SameBits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline float FloatOf(uint32_t bits) { return SameBits<float>(bits); }
inline double DoubleOf(uint64_t bits) { return SameBits<double>(bits); }
inline uint32_t BitsOf(float value) { return SameBits<uint32_t>(value); }
inline uint64_t BitsOf(double value) { return SameBits<uint64_t>(value); }

inline float FloatOfHalf(uint16_t bits) { return _cvtsh_ss(bits); }
inline uint16_t HalfOf(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }
inline float FloatOfBFloat16(uint16_t bits) { return FloatOf(static_cast<uint32_t>(bits) << 16); }

// Rounds to nearest, ties to even.
inline uint16_t BFloat16Of(float value) {
  if (std::isnan(value)) return 0x7fff;
  const uint32_t bits = BitsOf(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
inline T Quotient(T a, T b) {
  return b == 0 ? static_cast<T>(~T{0}) : static_cast<T>(a / b);
}

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_NUMBERS_H_
