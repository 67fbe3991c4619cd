// The options, gradients and results of a sum of sparse gradients.
#ifndef CONDACC_CORE_SPARSE_SPARSE_GRADIENT_H_
#define CONDACC_CORE_SPARSE_SPARSE_GRADIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/slices.h"
#include "cc/core/sparse/spare_buffers.h"
#include "cc/core/sparse/sparse_checks.h"

namespace condacc {

// The divisor of the sum of a row: the number of gradients that contain the row (kMean), 1 (kSum),
// or the number of all gradients (kGlobalMean).
enum class SparseReduction { kMean, kSum, kGlobalMean };

struct SparseOptions {
  ElementType type = ElementType::kFloat32;
  Shape shape = Shape::UnknownRank();
  SparseReduction reduction = SparseReduction::kMean;
  // A fold needs at least this many bytes of pending gradients, unless they are very many or the
  // budget is exceeded.
  size_t fold_bytes = size_t{240} << 20;
  HoldBudget* budget = &HoldBudget::Unlimited();
  // Memory for copies of values that are not owned.
  std::shared_ptr<SpareBuffers> spares =
      std::make_shared<SpareBuffers>(size_t{64} << 20, &HoldBudget::Unlimited());
};

// Returns the divisor of a take that gets `count` gradients. 0 means that each row is divided by
// the number of gradients that contain it.
constexpr int64_t DivisorOf(SparseReduction reduction, int64_t count) {
  if (reduction == SparseReduction::kMean) return 0;
  return reduction == SparseReduction::kSum ? 1 : count;
}

// A gradient in memory that nobody else writes to, so that it may be kept.
struct KeptGradient {
  Buffer indices;  // [n] int64
  Buffer values;   // [n, d1, ...]
  Shape values_shape;
  IndexSpan index_span;            // The indices in their buffer, and what is known about them.
  int64_t index_bound = -1;        // Indices must be lower. -1 means that there is no bound.
  bool values_are_a_copy = false;  // If true, their memory may be used for another copy.
  int64_t number = 0;              // Its number among the gradients of the sum, counted from 1.
  // If not OK, the reason why the gradient cannot be added. Its indices and values are then gone.
  Status failure;
};

// A gradient as an apply passes it.
struct SparseGradient {
  SparseShapes shapes;
  Buffer indices;  // [n] int64 or int32
  Buffer values;   // [n, d1, ...]
  bool indices_are_int32 = false;
  bool owns_indices = false;         // If true, nobody else refers to the buffer: it may be kept.
  bool owns_values = false;          // Likewise.
  std::optional<KeptGradient> kept;  // Set by Prepare().
};

// The result of a take. The indices ascend and are unique.
struct SparseValue {
  Buffer indices;  // [n] int64
  Buffer values;   // [n, d1, ...]
  Shape shape;     // Shape of the values.
  Status failure;  // If not OK, the reason why this is not the sum or mean.
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_GRADIENT_H_
