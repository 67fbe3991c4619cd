// Adds and divides one element of each type, for comparison.
#ifndef CONDACC_TESTS_MATH_DENSE_MATH_REFERENCE_H_
#define CONDACC_TESTS_MATH_DENSE_MATH_REFERENCE_H_

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "cc/core/base/element_type.h"
#include "cc/core/base/float16.h"
#include "tests/cc/base/narrow_float_reference.h"

namespace condacc {

// Returns numbers of very different sizes, so that the order of additions shows in the result. A
// few of them are a zero of either sign, subnormal, or so large that their sum overflows. None is
// infinite or NaN.
template <typename Real>
Real RandomReal(std::mt19937& random, int max_exponent) {
  const Real sign = random() % 2 == 0 ? 1 : -1;
  const Real mantissa = 1 + static_cast<Real>(random() % (1u << 24)) / (1u << 24);
  switch (random() % 16) {
    case 0:
      return sign * Real{0};
    case 1:
      return sign * std::ldexp(mantissa, -max_exponent - 3);
    case 2:
      return std::ldexp(mantissa, max_exponent - 1);
    default:
      return sign * std::ldexp(mantissa, static_cast<int>(random() % 12) - 6);
  }
}

template <typename T, typename Enable = void>
struct ElementTraits;

template <typename T>
struct ElementTraits<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr ElementType kType =
      sizeof(T) == 4 ? ElementType::kFloat32 : ElementType::kFloat64;
  static T Random(std::mt19937& random) {
    return RandomReal<T>(random, sizeof(T) == 4 ? 127 : 1023);
  }
  static T Widen(T value) { return value; }
  static T Plus(T a, T b) { return a + b; }
  static T Over(T sum, int64_t divisor) { return sum / static_cast<T>(divisor); }
  static T Narrow(T sum) { return sum; }
};

template <typename T>
struct ElementTraits<T, std::enable_if_t<std::is_integral_v<T>>> {
  using Unsigned = std::make_unsigned_t<T>;
  static constexpr ElementType kType = sizeof(T) == 4 ? ElementType::kInt32 : ElementType::kInt64;
  static T Random(std::mt19937& random) {
    return static_cast<T>((uint64_t{random()} << 32) | random());
  }
  static Unsigned Widen(T value) { return static_cast<Unsigned>(value); }
  static Unsigned Plus(Unsigned a, Unsigned b) { return a + b; }
  static Unsigned Over(Unsigned sum, int64_t) { return sum; }
  static T Narrow(Unsigned sum) { return static_cast<T>(sum); }
};

template <typename Real>
struct ElementTraits<std::complex<Real>> {
  using T = std::complex<Real>;
  using Part = ElementTraits<Real>;
  static constexpr ElementType kType =
      sizeof(Real) == 4 ? ElementType::kComplex64 : ElementType::kComplex128;
  static T Random(std::mt19937& random) {
    const Real real = Part::Random(random);
    return T(real, Part::Random(random));
  }
  static T Widen(T value) { return value; }
  static T Plus(T a, T b) { return T(a.real() + b.real(), a.imag() + b.imag()); }
  static T Over(T sum, int64_t divisor) {
    return T(Part::Over(sum.real(), divisor), Part::Over(sum.imag(), divisor));
  }
  static T Narrow(T sum) { return sum; }
};

template <typename NarrowType>
struct NarrowTraits {
  static constexpr NarrowFormat kFormat = kFormatOf<NarrowType>;
  static NarrowType Random(std::mt19937& random) {
    const double value = RandomReal<double>(random, kFormat.max_exponent);
    return {NearestOf(kFormat, value)};
  }
  static float Widen(NarrowType value) { return static_cast<float>(DoubleOf(kFormat, value.bits)); }
  static float Plus(float a, float b) { return a + b; }
  static float Over(float sum, int64_t divisor) { return sum / static_cast<float>(divisor); }
  static NarrowType Narrow(float sum) { return {NearestOf(kFormat, sum)}; }
};

template <>
struct ElementTraits<Float16> : NarrowTraits<Float16> {
  static constexpr ElementType kType = ElementType::kFloat16;
};
template <>
struct ElementTraits<BFloat16> : NarrowTraits<BFloat16> {
  static constexpr ElementType kType = ElementType::kBFloat16;
};

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace condacc

#endif  // CONDACC_TESTS_MATH_DENSE_MATH_REFERENCE_H_
