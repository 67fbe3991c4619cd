// The element types that gradients may have.
#ifndef CONDACC_CORE_BASE_ELEMENT_TYPE_H_
#define CONDACC_CORE_BASE_ELEMENT_TYPE_H_

#include <cstddef>

namespace condacc {

enum class ElementType {
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  kInt32,
  kInt64,
};

constexpr size_t SizeOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kFloat32:
    case ElementType::kInt32:
      return 4;
    case ElementType::kFloat64:
    case ElementType::kComplex64:
    case ElementType::kInt64:
      return 8;
    case ElementType::kComplex128:
      return 16;
  }
  return 0;
}

// Returns how many real numbers an element consists of.
constexpr size_t NumParts(ElementType type) {
  return type == ElementType::kComplex64 || type == ElementType::kComplex128 ? 2 : 1;
}

// Returns whether sums of the type are kept in float32, because the type is too narrow to add in.
// The take rounds them once.
constexpr bool SumsInFloat32(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kBFloat16;
}

// Returns the type in which sums of the type are kept.
constexpr ElementType SumTypeOf(ElementType type) {
  return SumsInFloat32(type) ? ElementType::kFloat32 : type;
}

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_ELEMENT_TYPE_H_
