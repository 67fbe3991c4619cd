// PTX's instructions on single bits. Shifts beyond the width are defined, as on the device.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_BITS_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_BITS_H_

#include <cstdint>

namespace condacc {
namespace emulated {

template <typename T>
inline constexpr uint32_t kWidth = 8 * sizeof(T);

template <typename T>
inline T ShiftedLeft(T value, uint32_t count) {
  return count >= kWidth<T> ? T{0} : static_cast<T>(value << count);
}

template <typename T>
inline T ShiftedRight(T value, uint32_t count) {
  if (count >= kWidth<T>) return value < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(value >> count);
}

// The lowest `length` bits.
template <typename T>
inline T LowBits(uint32_t length) {
  return length >= kWidth<T> ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
}

inline uint32_t BitMask(uint32_t position, uint32_t length) {
  return ShiftedLeft(LowBits<uint32_t>(length), position);
}

inline uint32_t NumOnes(uint64_t value) {
  return static_cast<uint32_t>(__builtin_popcountll(value));
}

template <typename T>
inline uint32_t NumLeadingZeros(T value) {
  if (value == 0) return kWidth<T>;
  return static_cast<uint32_t>(__builtin_clzll(value)) - (64 - kWidth<T>);
}

template <typename T>
inline T ReversedBits(T value) {
  T result = 0;
  for (uint32_t n = 0; n < kWidth<T>; ++n) {
    result |= static_cast<T>(value >> n & 1) << (kWidth<T> - 1 - n);
  }
  return result;
}

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_BITS_H_
