// PTX's instructions on single bits. Shifts beyond the width are defined, as on the device.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_BITS_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_BITS_H_

#include <algorithm>
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

inline uint32_t FunnelShiftCount(uint32_t count, bool wraps) {
  return wraps ? count & 31 : std::min(count, 32u);
}

inline uint32_t FunnelShiftedLeft(uint32_t low, uint32_t high, uint32_t count, bool wraps) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  return static_cast<uint32_t>(both << FunnelShiftCount(count, wraps) >> 32);
}

inline uint32_t FunnelShiftedRight(uint32_t low, uint32_t high, uint32_t count, bool wraps) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  return static_cast<uint32_t>(both >> FunnelShiftCount(count, wraps));
}

// The lowest `length` bits.
template <typename T>
inline T LowBits(uint32_t length) {
  return length >= kWidth<T> ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
}

template <typename T>
inline T ExtractedBits(T value, uint32_t position, uint32_t length) {
  return static_cast<T>(ShiftedRight<T>(value, position & 255) & LowBits<T>(length & 255));
}

// `into` with the lowest bits of `value` at a position.
template <typename T>
inline T InsertedBits(T value, T into, uint32_t position, uint32_t length) {
  const T mask = ShiftedLeft<T>(LowBits<T>(length & 255), position & 255);
  return static_cast<T>((into & ~mask) | (ShiftedLeft<T>(value, position & 255) & mask));
}

inline uint32_t BitMask(uint32_t position, uint32_t length) {
  return ShiftedLeft(LowBits<uint32_t>(length), position);
}

// Bit number 4a + 2b + c of `table` is the result for the bits a, b and c.
inline uint32_t LogicOfThree(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t row = 0; row < 8; ++row) {
    if ((table >> row & 1) == 0) continue;
    result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  }
  return result;
}

// Byte n of the result is the byte of (b, a) that the n-th four bits of `selector` name, or, with
// their highest bit, its sign.
inline uint32_t PermutedBytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t result = 0;
  for (int n = 0; n < 4; ++n) {
    const uint32_t choice = selector >> (4 * n) & 15;
    const uint32_t byte = static_cast<uint32_t>(both >> (8 * (choice & 7))) & 255;
    const uint32_t sign = (byte & 128) != 0 ? 255 : 0;
    result |= ((choice & 8) != 0 ? sign : byte) << (8 * n);
  }
  return result;
}

inline uint32_t NumOnes(uint64_t value) {
  return static_cast<uint32_t>(__builtin_popcountll(value));
}

template <typename T>
inline uint32_t NumLeadingZeros(T value) {
  if (value == 0) return kWidth<T>;
  return static_cast<uint32_t>(__builtin_clzll(value)) - (64 - kWidth<T>);
}

// The number of the highest bit that is 1, or all ones if there is none.
template <typename T>
inline uint32_t HighestOne(T value) {
  return kWidth<T> - 1 - NumLeadingZeros(value);
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
