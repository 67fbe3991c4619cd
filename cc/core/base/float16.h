// Converts float16 and bfloat16 to and from float32, rounding to nearest even, in portable code.
#ifndef CONDACC_CORE_BASE_FLOAT16_H_
#define CONDACC_CORE_BASE_FLOAT16_H_

#include <cstdint>
#include <cstring>

#include "cc/core/base/cpu_features.h"

namespace condacc {

CONDACC_ALWAYS_INLINE uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

CONDACC_ALWAYS_INLINE float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct BFloat16 {
  uint16_t bits;

  static CONDACC_ALWAYS_INLINE float ToFloat(BFloat16 value) {
    return FloatOf(static_cast<uint32_t>(value.bits) << 16);
  }

  static CONDACC_ALWAYS_INLINE BFloat16 FromFloat(float value) {
    const uint32_t bits = BitsOf(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet_nan = ((bits >> 16) & 0x8000) | 0x7fc0;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return {static_cast<uint16_t>(is_nan ? quiet_nan : rounded)};
  }
};

struct Float16 {
  uint16_t bits;

  static CONDACC_ALWAYS_INLINE float ToFloat(Float16 value) {
    const uint32_t sign = (value.bits & 0x8000u) << 16;
    const uint32_t magnitude = (value.bits & 0x7fffu) << 13;
    // Both `normal` and `subnormal` are computed without a subnormal float32, because some threads
    // flush these to zero.
    const uint32_t normal = magnitude + 0x38000000;  // Changes the exponent's bias.
    const uint32_t subnormal = BitsOf(FloatOf(magnitude + 0x38800000) - FloatOf(0x38800000));
    const uint32_t finite = magnitude >= 0x00800000 ? normal : subnormal;
    const uint32_t special = magnitude | 0x7f800000;  // Infinity or NaN.
    return FloatOf(sign | (magnitude >= 0x0f800000 ? special : finite));
  }

  static CONDACC_ALWAYS_INLINE Float16 FromFloat(float value) {
    const uint32_t bits = BitsOf(value);
    const uint32_t sign = (bits >> 16) & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    // If the result is subnormal, adding 0.5 rounds its mantissa and leaves it in the lowest bits.
    const uint32_t subnormal = BitsOf(FloatOf(magnitude) + 0.5f) - 0x3f000000;
    const uint32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const uint32_t overflow = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    return {static_cast<uint16_t>(sign | (magnitude >= 0x47800000 ? overflow : finite))};
  }
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_FLOAT16_H_
