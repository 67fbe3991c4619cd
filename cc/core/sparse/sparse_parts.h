// What sparse gradients, what is asked of their sum, and what comes of them consist of.
#ifndef CONDACC_CORE_SPARSE_SPARSE_PARTS_H_
#define CONDACC_CORE_SPARSE_SPARSE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "cc/core/base/block.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/spare_blocks.h"
#include "cc/core/sparse/sparse_gradient.h"

namespace condacc {

// What the sum of a row is divided by: the number of gradients it was in, nothing, or the number of
// all gradients.
enum class SparseReduction { kMean, kSum, kGlobalMean };

struct SparseOptions {
  ElementType type = ElementType::kFloat32;
  Shape shape = Shape::UnknownRank();
  SparseReduction reduction = SparseReduction::kMean;
  size_t fold_bytes = size_t{240} << 20;  // what is pending is not folded before it is as much
  HoldBudget* budget = &HoldBudget::Global();
  // Where copies of values are made that were not owned.
  std::shared_ptr<SpareBlocks> spares =
      std::make_shared<SpareBlocks>(size_t{64} << 20, &HoldBudget::Global());
};

// What a take that gets `count` gradients divides by; 0: each row by how many it was in.
constexpr int64_t DivisorOf(SparseReduction reduction, int64_t count) {
  if (reduction == SparseReduction::kMean) return 0;
  return reduction == SparseReduction::kSum ? 1 : count;
}

// The rows of a gradient in memory that nobody else writes to, so that they may be kept.
struct KeptRows {
  Block indices;  // int64
  Block values;
  Shape values_shape;
  int64_t num_dense_rows = -1;     // Indices are lower; -1: any may come.
  bool values_are_a_copy = false;  // Their memory may be used for another copy.
  RowSurvey survey;
};

// A gradient as it comes.
struct SparseGradient {
  SparseShapes shapes;
  Block indices;  // int64 or int32
  Block values;
  bool indices_are_int32 = false;
  bool owns_indices = false;  // Nobody else reads or writes the block: it may be kept.
  bool owns_values = false;
  std::optional<KeptRows> rows;  // What Prepare() makes of it.
};

// Rows, ascending and unique.
struct SparseValue {
  Block indices;
  Block values;
  Shape shape;     // of the values
  Status failure;  // why it is not what the gradients come to
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_PARTS_H_
