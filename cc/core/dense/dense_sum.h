// The sum of dense gradients between two takes.
#ifndef CONDACC_CORE_DENSE_DENSE_SUM_H_
#define CONDACC_CORE_DENSE_DENSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

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

  static constexpr bool kFinishNeedsMemory = false;

  explicit DenseSum(const Options& options);
  ~DenseSum() { Clear(); }
  DenseSum(const DenseSum&) = delete;
  DenseSum& operator=(const DenseSum&) = delete;

  Status Check(const Gradient& gradient) const;

  // False if the gradient has to be prepared first.
  bool CanAppend(const Gradient& gradient) const;

  // Gives the gradient what CanAppend() missed. Needs no lock; on an error nothing has changed.
  // Memory for wide sums is asked for one gradient early, in case the budget runs out meanwhile.
  static Status Prepare(const Options& options, bool is_first, Workspace& workspace,
                        Gradient* gradient) {
    return is_first ? workspace.Allocate(options.type, gradient->shape, &gradient->place)
                    : workspace.Allocate(ElementType::kFloat32, gradient->shape, &gradient->wide);
  }

  bool empty() const { return state_ == State::kEmpty; }
  // True if it has to be added before the call that brings it returns.
  bool MustAddNow(const Gradient& gradient) const {
    return !gradient.owned && !options_.holds_borrowed;
  }

  // Throws std::bad_alloc only, and then nothing has changed.
  void Append(Gradient gradient);

  size_t num_pending() const { return pending_.blocks.size(); }
  // Without a float32 block only the first float16 gradient can be put in its place.
  bool CanFold() const { return HasRoomToAdd() || !has_sum(); }

  // True if more should not be held back. One more may be where a take is about to come.
  bool WantsFold(bool take_is_near) const;
  // True if so much is pending that whoever brings more should wait for the fold that runs.
  bool IsOverfull() const {
    return CanFold() && (num_pending() >= 2 * options_.max_pending ||
                         (num_pending() > 1 && options_.budget->IsExceeded()));
  }
  // True if folding early makes a take noticeably faster.
  bool IsBig() const { return options_.adds_ahead && num_elements_ >= kBig; }

  // A fold in three parts; only the second may run without the lock, and no two at a time. Returns
  // how many gradients it adds: the longest pending.
  int64_t BeginFold() noexcept;
  bool RunFold(Workspace& workspace) noexcept;
  void EndFold(bool succeeded) noexcept;

  // What the round comes to, after `count` gradients. Cannot fail: it needs no memory. Not while a
  // fold runs; only Clear() may follow.
  Value Finish(int64_t count, Workspace& workspace);

  // Ends what has been added.
  void Clear() noexcept;

 private:
  static constexpr size_t kBig = 1 << 16;  // elements

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
