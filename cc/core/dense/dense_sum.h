// The sum of dense gradients between two takes.
#ifndef CONDACC_CORE_DENSE_DENSE_SUM_H_
#define CONDACC_CORE_DENSE_DENSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/math/dense_math.h"

namespace condacc {

// Keeps the gradients of one round, and adds several of them in one pass.
//
// The first gradient provides the memory for the result: its own buffer if it is owned, otherwise a
// buffer that is allocated for it. So a take needs no memory, except for the addresses of early
// gradients. Sums of float16 and bfloat16 are kept in another buffer, in float32. Gradients are
// pending until a fold adds them. Not thread-safe, except that RunFold() may run while more
// gradients are appended.
class DenseSum final : public RoundSum {
 public:
  explicit DenseSum(const SumOptions& options);

  Status Check(const Gradient& gradient, const Shape* early) const override;
  Missing MissingFrom(const Gradient& gradient, bool is_early) const override;
  Status Supply(Missing missing, Workspace& workspace, Gradient* gradient) const override;
  Appended Append(Gradient&& gradient) override;
  void MoveMemoryFrom(Gradient* early) noexcept override {
    if (!float32_sum_) float32_sum_ = std::move(early->float32_memory);
  }
  Advice Advise(const NextTake& next_take) const override;
  int64_t BeginFold() noexcept override;
  void RunFold(Workspace& workspace) noexcept override;
  bool EndFold() noexcept override;
  double BeginSave() override;
  Status RunSave(Workspace& workspace, StateMemory& memory) override;
  void EndSave() override { is_saving_ = false; }
  Status Restore(const SavedSum& saved, Workspace& workspace) override;
  Status PrepareFinish(std::vector<Gradient*> early, Workspace& workspace) override;
  const Shape& value_shape() const override { return shape_; }
  void AbandonFinish() override { early_.clear(); }
  Value Finish(Workspace& workspace) noexcept override;
  void Clear() noexcept override;

 private:
  enum class State {
    kEmpty,         // There is no gradient, and no memory for the result.
    kPending,       // All gradients are pending.
    kInResult,      // The sum of the added gradients is in `result_`.
    kInFloat32Sum,  // The sum of the added gradients is in `float32_sum_`, in float32.
  };

  // Buffers that are added together, and memory for the list of their addresses.
  struct Batch {
    std::vector<Buffer> buffers;
    std::vector<const void*> operands;

    void Reserve(size_t capacity);
  };

  void SetShape(Shape shape) {
    shape_ = std::move(shape);
    num_elements_ = static_cast<size_t>(shape_.num_elements());
  }
  size_t num_pending() const { return pending_.buffers.size(); }
  bool IsUrgent(const Gradient& gradient) const {
    return !gradient.owned && !options_.holds_borrowed;
  }
  // Returns whether the pending gradients can be folded. Without `float32_sum_`, float16 and
  // bfloat16 gradients cannot be added: a fold can only copy the first one to `result_`.
  bool CanFold() const { return HasRoomToAdd() || !has_sum(); }
  bool has_sum() const { return state_ == State::kInResult || state_ == State::kInFloat32Sum; }
  // Returns the arguments for adding a batch to the sum, with the sum's own memory as the output.
  DenseAddArgs Operands(Batch* batch) const noexcept;
  DenseAddArgs ArgsFor(const std::vector<const void*>& operands) const noexcept;
  // Lets the workspace add inputs to `args.out` until the rest of them fits in one pass. Returns
  // the arguments of that last pass. Uses only its arguments and the options, because gradients may
  // be appended at the same time.
  DenseAddArgs RunFirstPasses(DenseAddArgs args, Workspace& workspace) const noexcept;
  // Returns whether a fold should add the pending gradients once there are `num_pending`.
  bool IsFull(size_t num_pending) const;
  // Returns whether the pending gradients, of which there are some, should be added now.
  bool WantsFold(const NextTake& next_take) const;
  // Returns whether there is memory in which several gradients can be added.
  bool HasRoomToAdd() const { return !SumsInFloat32(options_.type) || float32_sum_; }
  size_t GradientBytes() const { return num_elements_ * SizeOf(options_.type); }
  // Records the first failure of the workspace, which Finish() will report.
  void NoteFailure(Workspace& workspace) noexcept {
    if (failure_.ok()) failure_ = workspace.TakeFailure().Permanent();
  }

  State state_ = State::kEmpty;
  Shape shape_;
  size_t num_elements_ = 0;
  Buffer result_;       // Memory of the result. Set in all states but kEmpty.
  Buffer float32_sum_;  // Memory for adding float16 and bfloat16 in float32, or empty.
  Status failure_;
  Batch pending_;
  Batch folding_;  // The gradients that the current fold adds.
  DenseAddArgs fold_;
  size_t num_folded_ = 0;
  std::vector<const void*> saved_operands_;  // The gradients that the current save adds.
  DenseAddArgs save_;
  bool is_saving_ = false;        // Between BeginSave() and EndSave().
  std::vector<Gradient*> early_;  // Set from PrepareFinish() to Finish().
};

// The SumFactory of dense sums.
std::unique_ptr<RoundSum> NewDenseSum(const SumOptions& options);

}  // namespace condacc

#endif  // CONDACC_CORE_DENSE_DENSE_SUM_H_
