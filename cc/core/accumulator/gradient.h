// Gradients, and the results of takes.
#ifndef CONDACC_CORE_ACCUMULATOR_GRADIENT_H_
#define CONDACC_CORE_ACCUMULATOR_GRADIENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cc/core/accumulator/index_span.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"

namespace condacc {

// The parts of a gradient that a sum keeps until it adds them.
struct Addend {
  Buffer values;  // [...], or [n, d1, ...] if sparse
  // The values are already multiplied by the weight. A mean is divided by the sum of the weights.
  double weight = 1;
  std::optional<int64_t> contributor;  // Required if they are added in the order of contributors.

  Buffer indices;        // [n] int64 or int32, if sparse
  IndexSpan index_span;  // The indices, and what is known about them. Set by RoundSum::Supply().
  int64_t index_bound = -1;  // Indices must be lower. -1 means no bound. Set by RoundSum::Supply().
};

// A gradient as an apply passes it, and what RoundSum::Supply() adds to it. A dense gradient has
// no indices. A sparse gradient consists of some rows of a dense tensor and their indices.
struct Gradient : Addend {
  Shape shape;         // Shape of the values.
  bool owned = false;  // If true, nothing else refers to the values, so they may be overwritten.

  Shape indices_shape;
  bool owns_indices = false;  // If true, nothing else refers to the indices.
  bool indices_are_int32 = false;
  // The shape of the dense tensor, if given. A negative first dimension means unknown.
  std::optional<Shape> dense_shape;

  // RoundSum::Supply() sets these fields of dense gradients.
  Buffer result_memory;   // Memory for the result, if the gradient is the first and not owned.
  Buffer float32_memory;  // Memory for a float32 sum.

  // RoundSum::Supply() sets this field of sparse gradients.
  bool is_kept = false;  // If true, indices and values are in memory that may be kept.
};

// The result of a take. The indices are ascending and unique, or empty if the value is dense.
struct Value {
  Buffer indices;  // [n] int64
  Buffer values;   // [...], or [n, d1, ...] if sparse
  Shape shape;     // Shape of the values.
  Status failure;  // If not OK, the reason why this is not the sum or mean.
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_GRADIENT_H_
