// The element types of C++ types, for tests that are templates.
#ifndef CONDACC_TESTS_BASE_ELEMENT_TYPE_OF_H_
#define CONDACC_TESTS_BASE_ELEMENT_TYPE_OF_H_

#include <complex>
#include <cstdint>

#include "cc/core/base/element_type.h"
#include "cc/core/base/float16.h"

namespace condacc {

// The element type with values of type T. Tests with other types add specializations.
template <typename T>
constexpr ElementType kTypeOf = ElementType::kFloat32;
template <>
constexpr ElementType kTypeOf<double> = ElementType::kFloat64;
template <>
constexpr ElementType kTypeOf<int32_t> = ElementType::kInt32;
template <>
constexpr ElementType kTypeOf<uint32_t> = ElementType::kInt32;
template <>
constexpr ElementType kTypeOf<int64_t> = ElementType::kInt64;
template <>
constexpr ElementType kTypeOf<uint64_t> = ElementType::kInt64;
template <>
constexpr ElementType kTypeOf<std::complex<float>> = ElementType::kComplex64;
template <>
constexpr ElementType kTypeOf<std::complex<double>> = ElementType::kComplex128;
template <>
constexpr ElementType kTypeOf<Float16> = ElementType::kFloat16;
template <>
constexpr ElementType kTypeOf<BFloat16> = ElementType::kBFloat16;

constexpr bool IsInteger(ElementType type) {
  return type == ElementType::kInt32 || type == ElementType::kInt64;
}

}  // namespace condacc

#endif  // CONDACC_TESTS_BASE_ELEMENT_TYPE_OF_H_
