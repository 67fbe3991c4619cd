// The options of the sums of an accumulator. They say of what type the gradients are, and when they
// are added.
#ifndef CONDACC_CORE_ACCUMULATOR_SUM_OPTIONS_H_
#define CONDACC_CORE_ACCUMULATOR_SUM_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "cc/core/base/element_type.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/shape.h"

namespace condacc {

// The divisor of a sum: the total weight of the gradients (kMean), or 1 (kSum). For sparse
// gradients, kMean divides the sum of a row by the total weight of the gradients that contain the
// row, and kGlobalMean by that of all gradients. The total weight of gradients without weights is
// their number.
enum class Reduction { kMean, kSum, kGlobalMean };

// Returns the divisor of the sum of gradients with this total weight. If the weight is 0, so is the
// sum, which is then not divided.
constexpr double DivisorOf(Reduction reduction, double total_weight) {
  return reduction == Reduction::kSum || total_weight == 0 ? 1 : total_weight;
}

// The options of the sums of an accumulator. The defaults suit gradients in host memory.
struct SumOptions {
  ElementType type = ElementType::kFloat32;
  Shape shape = Shape::UnknownRank();
  Reduction reduction = Reduction::kMean;
  HoldBudget* budget = &HoldBudget::Unlimited();
  // If not 0, the gradients are those of contributors 0 to num_contributors - 1, and are added in
  // this order instead of that of their arrival.
  int64_t num_contributors = 0;

  // Options for dense gradients.
  size_t small_bytes = 32 << 10;  // Gradients of up to this size are added as soon as they arrive.
  size_t max_pending = 7;         // Fold once this many gradients are pending.
  // Fold once the pending gradients have this many bytes.
  size_t max_pending_bytes = std::numeric_limits<size_t>::max();
  // The number of gradients that the workspace can add to another one at once. For float16 and
  // bfloat16, it must not be lower than max_pending.
  size_t max_inputs = std::numeric_limits<size_t>::max();
  // If true, borrowed gradients are queued instead of added before Apply() returns.
  bool holds_borrowed = false;
  // If false, the sum is in the memory of a device. If true, large pending gradients are added as
  // soon as a waiting take lacks only one more.
  bool is_in_host_memory = true;

  // Options for sparse gradients. A fold needs at least this many bytes of pending gradients,
  // unless there are very many of them or the budget is exceeded.
  size_t fold_bytes = size_t{160} << 20;
  // A fold of at least this many bytes takes long.
  size_t long_fold_bytes = size_t{16} << 20;

  // Returns the options for gradients on a device to which work is queued. Adding two gradients in
  // one pass then costs less than two passes, however small they are. Folds of sparse gradients,
  // which wait for the device, should be few.
  static SumOptions OfQueue(size_t max_inputs) {
    SumOptions options;
    options.small_bytes = 0;
    options.max_inputs = max_inputs;
    options.is_in_host_memory = false;
    options.fold_bytes = size_t{1} << 30;
    return options;
  }

  bool in_order_of_contributors() const { return num_contributors > 0; }

  // Dense gradients are not held: each is added as soon as possible.
  void HoldNothing() { max_pending_bytes = 0; }

  // Sets the options for gradients of towers. `folds_wait` says whether folds wait for a device. A
  // step has many sums of towers' gradients at once, so the memory of each must not grow with the
  // number of towers. Large gradients are added as soon as there are two, and those that arrive
  // during a pass are added together in the next one. A few smaller ones are held and added in one
  // pass. Borrowed gradients are held like others. They may be read as late as an op that has all
  // gradients as inputs, such as AddN, would read them. The mean is over all towers, as for dense
  // gradients, and not over those that have the row.
  void UseForTowers(bool folds_wait) {
    small_bytes = 0;
    max_pending = 8;
    max_pending_bytes = 32 << 20;
    holds_borrowed = true;
    if (!folds_wait) fold_bytes = 0;
    if (reduction == Reduction::kMean) reduction = Reduction::kGlobalMean;
  }
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_SUM_OPTIONS_H_
