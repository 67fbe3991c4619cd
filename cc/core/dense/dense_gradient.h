// The options, gradients and workspace of a sum of dense gradients.
#ifndef CONDACC_CORE_DENSE_DENSE_GRADIENT_H_
#define CONDACC_CORE_DENSE_DENSE_GRADIENT_H_

#include <cstddef>
#include <limits>

#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/dense/dense_math.h"

namespace condacc {

// The options of a dense accumulator, which all of its rounds share.
struct DenseOptions {
  ElementType type = ElementType::kFloat32;
  Shape shape = Shape::UnknownRank();
  bool mean = true;
  size_t small_bytes = 32 << 10;  // Gradients of up to this size are added as soon as they come.
  size_t max_pending = 7;         // Fold once this many gradients are pending.
  // Fold once the pending gradients have this many bytes.
  size_t max_pending_bytes = std::numeric_limits<size_t>::max();
  // The number of gradients that the workspace can add to another one at once. For float16 and
  // bfloat16, it must not be lower than max_pending.
  size_t max_inputs = std::numeric_limits<size_t>::max();
  // If true, borrowed gradients are queued instead of added before Apply() returns.
  bool holds_borrowed = false;
  // If true, large pending gradients are added as soon as a waiting take lacks only one more.
  bool adds_ahead = true;
  HoldBudget* budget = &HoldBudget::Unlimited();
};

// The memory and threads that a call into the accumulator works with: those of the device on which
// the gradients lie.
class DenseWorkspace {
 public:
  virtual ~DenseWorkspace() = default;
  // Allocates a buffer for a tensor. Returns ResourceExhausted if memory is refused.
  virtual Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) = 0;
  // Does what AddDense() does. A device may only queue the work.
  virtual void Add(const DenseAddArgs& args) = 0;
  // Returns the error of an Add() that failed, if there was one. The output of that Add() is not
  // valid.
  virtual Status failure() const { return Status(); }
};

struct DenseGradient {
  Buffer buffer;
  Shape shape;
  bool owned = false;  // If true, nobody else refers to the buffer: it may be kept and written to.
  // Memory that DenseSum::Prepare() has allocated.
  Buffer result_memory;   // Memory for the result, if the gradient is the first and not owned.
  Buffer float32_memory;  // Memory for a float32 sum.
};

}  // namespace condacc

#endif  // CONDACC_CORE_DENSE_DENSE_GRADIENT_H_
