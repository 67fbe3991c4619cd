// The parts of sparse gradients that merges work with.
#ifndef CONDACC_CORE_SPARSE_SLICES_H_
#define CONDACC_CORE_SPARSE_SLICES_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"

namespace condacc {

// One slice of one gradient's values. Merges sort entries instead of the slices themselves.
struct SliceEntry {
  int64_t index;      // Index of the slice's row in the dense tensor.
  uint32_t gradient;  // Number of the gradient.
  uint32_t position;  // Position of the slice in the gradient.
};

// The layout of a slice: `width` contiguous elements. The sum of a row has the same number of
// elements, of the sum type.
struct SliceLayout {
  ElementType type = ElementType::kFloat32;
  size_t width = 0;

  // Returns the layout of values of shape [n, d1, ...], which are n slices of d1 * ... elements.
  static SliceLayout Of(ElementType type, const Shape& values) {
    SliceLayout layout{type, 1};
    for (int i = 1; i < values.rank(); ++i) layout.width *= static_cast<size_t>(values.dim(i));
    return layout;
  }

  size_t num_bytes() const { return width * SizeOf(type); }
  // Sums of float16 and bfloat16 are kept in float32.
  ElementType sum_type() const { return SumTypeOf(type); }
  size_t num_sum_bytes() const { return width * SizeOf(sum_type()); }
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SLICES_H_
