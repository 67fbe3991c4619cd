// The type and shape of the rows of a round, and the parts of sparse gradients that merges work
// with.
#ifndef CONDACC_CORE_SPARSE_ROW_FORMAT_H_
#define CONDACC_CORE_SPARSE_ROW_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"

namespace condacc {

// Gradients in the order in which they are added.
using Addends = std::vector<Addend*>;

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

  size_t num_bytes() const { return width * SizeOf(type); }
  // Sums of float16 and bfloat16 are kept in float32.
  ElementType sum_type() const { return SumTypeOf(type); }
  size_t num_sum_bytes() const { return width * SizeOf(sum_type()); }
};

// This divisor means that each row is divided by the total weight of the gradients that contain it.
inline constexpr double kOfEachRow = 0;

// Returns the divisor of all rows, or kOfEachRow.
constexpr double RowDivisorOf(Reduction reduction, double total_weight) {
  return reduction == Reduction::kMean ? kOfEachRow : DivisorOf(reduction, total_weight);
}

// All gradients of a round have rows of the same type and shape. The first one determines them.
struct RowFormat {
  Shape values;  // Shape of the first gradient's values.
  SliceLayout layout;

  // Returns the format of values of shape [n, d1, ...], which are n slices of d1 * ... elements.
  static RowFormat Of(ElementType type, const Shape& values) {
    RowFormat format{values, {type, 1}};
    for (int i = 1; i < values.rank(); ++i) {
      format.layout.width *= static_cast<size_t>(values.dim(i));
    }
    return format;
  }

  // Returns the shape of the values of this many rows.
  Shape ShapeOf(int64_t num_rows) const { return values.WithFirstDim(num_rows); }
  // Allocates memory for this many rows, with values of type `type`.
  Status Allocate(int64_t num_rows, ElementType type, Workspace& workspace, Value* rows) const {
    rows->shape = ShapeOf(num_rows);
    const Shape indices = Shape::Of({num_rows});
    const Status status = workspace.Allocate(ElementType::kInt64, indices, &rows->indices);
    return status.ok() ? workspace.Allocate(type, rows->shape, &rows->values) : status;
  }
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_ROW_FORMAT_H_
