// What dense gradients, and what is asked of their sum, consist of.
#ifndef CONDACC_CORE_DENSE_DENSE_PARTS_H_
#define CONDACC_CORE_DENSE_DENSE_PARTS_H_

#include <cstddef>
#include <limits>

#include "cc/core/base/block.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/dense/dense_math.h"

namespace condacc {

// What all rounds of one accumulator have in common.
struct DenseOptions {
  ElementType type = ElementType::kFloat32;
  Shape shape = Shape::UnknownRank();
  bool mean = true;
  size_t small_bytes = 32 << 10;  // gradients up to this size are not held back
  size_t max_pending = 7;         // so many are added whatever else there is
  size_t max_pending_bytes = std::numeric_limits<size_t>::max();  // likewise
  bool holds_borrowed = false;  // back like others, instead of adding them at once
  bool adds_ahead = true;       // what is pending when only the last gradient of a take is missing
  HoldBudget* budget = &HoldBudget::Global();
};

// What a call into the accumulator may work with: memory and threads of the device that the
// gradients lie on.
class DenseWorkspace {
 public:
  virtual ~DenseWorkspace() = default;
  virtual Status Allocate(ElementType type, const Shape& shape, Block* block) = 0;
  virtual void Sum(const DenseSumArgs& args) = 0;
  // Why a Sum() went wrong, if one did. It has spoiled the sum that it was of.
  virtual Status failure() const { return Status(); }
};

struct DenseGradient {
  Block block;
  Shape shape;
  bool owned = false;  // nobody else reads or writes the block: it may be kept and written to
  // Memory that the gradient brings along when the sum asked for it.
  Block place;  // for the sum, if the gradient is the first and not owned
  Block wide;   // for a float32 sum
};

}  // namespace condacc

#endif  // CONDACC_CORE_DENSE_DENSE_PARTS_H_
