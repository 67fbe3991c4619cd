// A slow and simple reference for conversions of float16 and bfloat16, in double precision.
#ifndef CONDACC_TESTS_BASE_NARROW_FLOAT_REFERENCE_H_
#define CONDACC_TESTS_BASE_NARROW_FLOAT_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cc/core/base/float16.h"

namespace condacc {

// A binary format of 16 bits: a sign, then the exponent, then the mantissa.
struct NarrowFormat {
  int mantissa_bits;
  int max_exponent;  // The exponent of the highest finite values, and the bias.

  int infinity() const { return ((1 << (15 - mantissa_bits)) - 1) << mantissa_bits; }
  bool IsNan(uint16_t bits) const { return (bits & 0x7fff) > infinity(); }
};

template <typename Narrow>
constexpr NarrowFormat kFormatOf{};
template <>
constexpr NarrowFormat kFormatOf<Float16>{10, 15};
template <>
constexpr NarrowFormat kFormatOf<BFloat16>{7, 127};

inline double DoubleOf(const NarrowFormat& format, uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int magnitude = bits & 0x7fff;
  if (magnitude > format.infinity()) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.infinity()) return sign * std::numeric_limits<double>::infinity();
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude - (exponent << format.mantissa_bits);
  const int implicit_one = exponent > 0 ? 1 << format.mantissa_bits : 0;
  const int scale = std::max(exponent, 1) - format.max_exponent - format.mantissa_bits;
  return sign * std::ldexp(implicit_one + mantissa, scale);
}

// Returns the nearest value of the format, or the even one of two that are equally near. For a NaN,
// returns some NaN.
inline uint16_t NearestOf(const NarrowFormat& format, double value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7fff);
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | format.infinity());
  const int min_exponent = 1 - format.max_exponent;
  const int exponent =
      magnitude == 0 ? min_exponent : std::max(std::ilogb(magnitude), min_exponent);
  // The value is rounded in units of the last place; nearbyint() rounds to even.
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const int one = 1 << format.mantissa_bits;
  // The leading one of a normal value counts as 1 in the exponent field, and so does a carry.
  const int biased = exponent - min_exponent;
  const int64_t bits = static_cast<int64_t>(biased) * one + static_cast<int64_t>(units);
  return static_cast<uint16_t>(sign | std::min<int64_t>(bits, format.infinity()));
}

}  // namespace condacc

#endif  // CONDACC_TESTS_BASE_NARROW_FLOAT_REFERENCE_H_
