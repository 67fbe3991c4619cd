// The sum of dense gradients between two takes.
#ifndef CONDACC_CORE_DENSE_DENSE_SUM_H_
#define CONDACC_CORE_DENSE_DENSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/accumulator/sum_contract.h"
#include "cc/core/base/block.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/dense/dense_math.h"
#include "cc/core/dense/dense_parts.h"

namespace condacc {

// Keeps the gradients of one round in order of arrival, and adds them several at a time.
//
// The sum has a place from the first gradient on, which is that gradient's own memory if it is
// owned, and in which it is handed out in the end, so that taking it needs no memory. (float16 and
// bfloat16 grow in a float32 block of their own.) Gradients are pending until a fold adds them. Not
// thread-safe, except that a fold runs without its caller's lock while further gradients are
// appended.
class DenseSum {
 public:
  using Options = DenseOptions;
  using Gradient = DenseGradient;
  using Workspace = DenseWorkspace;
  struct Value {
    Block block;
    Shape shape;
    Status failure;  // why it is not what the gradients come to
  };

  enum class Need {
    kNothing,
    kPlace,  // Memory for the sum: the gradient is the first and not owned.
    kWide,   // Memory for a float32 sum.
  };
  static constexpr bool kFinishNeedsMemory = false;

  explicit DenseSum(const Options& options);
  ~DenseSum() { Clear(); }
  DenseSum(const DenseSum&) = delete;
  DenseSum& operator=(const DenseSum&) = delete;

  // See SumContract.
  Status Check(const Gradient& gradient) const;
  Need NeedOf(const Gradient& gradient) const;
  static Status Prepare(const Options& options, Need need, Workspace& workspace,
                        Gradient* gradient);
  Appended Append(Gradient gradient);
  bool WantsFold(bool take_is_near) const;
  bool WantsFoldAhead() const;
  bool IsOverfull() const;
  int64_t BeginFold() noexcept;
  void RunFold(Workspace& workspace) noexcept;
  bool EndFold() noexcept;
  Value Finish(Workspace& workspace);
  void Clear() noexcept;

 private:
  enum class State {
    kEmpty,    // There has been no gradient, and the sum has no place.
    kPending,  // All gradients are pending.
    kInPlace,  // What was added is in `place_`,
    kInWide,   // or, in float32, in `wide_`.
  };

  // Blocks to be added together, and room for their addresses.
  struct Batch {
    std::vector<Block> blocks;
    std::vector<const void*> operands;

    void Reserve(size_t capacity);
  };

  bool empty() const { return state_ == State::kEmpty; }
  size_t num_pending() const { return pending_.blocks.size(); }
  bool IsUrgent(const Gradient& gradient) const {
    return !gradient.owned && !options_.holds_borrowed;
  }
  // Without a float32 block only the first float16 gradient can be put in its place.
  bool CanFold() const { return HasRoomToAdd() || !has_sum(); }
  bool has_sum() const { return state_ == State::kInPlace || state_ == State::kInWide; }
  DenseSumArgs Operands(Batch* batch) const noexcept;
  // True if so many pending gradients should be added.
  bool IsFull(size_t num_pending) const;
  // Whether there is memory in which gradients can be added.
  bool HasRoomToAdd() const { return !SumsInFloat32(options_.type) || wide_; }
  size_t GradientBytes() const { return num_elements_ * SizeOf(options_.type); }
  void NoteFailure(const Workspace& workspace) noexcept;
  // Modulo 2^64: a negative number of bytes lets go.
  void Hold(size_t bytes) noexcept {
    held_bytes_ += bytes;
    options_.budget->Add(bytes);
  }

  const Options& options_;
  State state_ = State::kEmpty;
  int64_t count_ = 0;  // Gradients appended.
  Shape shape_;
  size_t num_elements_ = 0;
  Block place_;  // Where the sum is handed out. Set in all states but kEmpty.
  Block wide_;   // Where float16 and bfloat16 are added in float32, from the second fold on.
  Status failure_;
  Batch pending_;
  size_t held_bytes_ = 0;
  Batch folding_;  // what the fold that runs adds
  DenseSumArgs fold_;
  size_t num_folded_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_DENSE_DENSE_SUM_H_
