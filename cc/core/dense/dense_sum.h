// The sum of dense gradients between two takes.
#ifndef CONDACC_CORE_DENSE_DENSE_SUM_H_
#define CONDACC_CORE_DENSE_DENSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

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
template <class Block>
class DenseSum {
 public:
  using Options = DenseOptions;
  using Gradient = DenseGradient<Block>;
  using Workspace = DenseWorkspace<Block>;
  struct Value {
    Block block;
    Shape shape;
    Status failure;  // why it is not what the gradients come to
  };

  static constexpr bool kFinishNeedsMemory = false;

  explicit DenseSum(const Options& options) : options_(options) {
    pending_.Reserve(options.max_pending + 1);
    folding_.Reserve(options.max_pending + 1);
  }
  ~DenseSum() { Clear(); }
  DenseSum(const DenseSum&) = delete;
  DenseSum& operator=(const DenseSum&) = delete;

  Status Check(const Gradient& gradient) const {
    const Shape& expected = place_ ? shape_ : options_.shape;
    if (expected.IsCompatibleWith(gradient.shape)) return Status();
    return Status(StatusCode::kInvalidArgument, "Shape mismatch: expected " + expected.ToString() +
                                                    ", got " + gradient.shape.ToString());
  }

  // False if the gradient has to be prepared first.
  bool CanAppend(const Gradient& gradient) const {
    if (!place_) return gradient.owned || gradient.place;
    const bool will_fold = MustAddNow(gradient) || IsFull(num_pending() + 1);
    return !will_fold || HasRoomToAdd() || gradient.wide;
  }

  // Gives the gradient what CanAppend() missed. Needs no lock; on an error nothing has changed.
  // Memory for wide sums is asked for one gradient early, in case the budget runs out meanwhile.
  static Status Prepare(const Options& options, bool is_first, Workspace& workspace,
                        Gradient* gradient) {
    return is_first ? workspace.Allocate(options.type, gradient->shape, &gradient->place)
                    : workspace.Allocate(ElementType::kFloat32, gradient->shape, &gradient->wide);
  }

  bool empty() const { return !place_; }
  // True if it has to be added before the call that brings it returns.
  bool MustAddNow(const Gradient& gradient) const {
    return !gradient.owned && !options_.holds_borrowed;
  }

  // Throws std::bad_alloc only, and then nothing has changed.
  void Append(Gradient gradient) {
    // A fold may be running, whose batch is not touched.
    if (num_pending() == pending_.blocks.capacity()) pending_.Reserve(2 * num_pending());
    if (!wide_) wide_ = std::move(gradient.wide);
    if (!place_) {
      shape_ = std::move(gradient.shape);
      num_elements_ = static_cast<size_t>(shape_.num_elements());
      has_sum_ = gradient.owned;
      place_ = std::move(gradient.owned ? gradient.block : gradient.place);
      if (has_sum_) return;
    }
    pending_.blocks.push_back(std::move(gradient.block));
    Hold(GradientBytes());
  }

  size_t num_pending() const { return pending_.blocks.size(); }
  // Without a float32 block only the first float16 gradient can be put in its place.
  bool CanFold() const { return HasRoomToAdd() || !has_sum_; }

  // True if more should not be held back. One more may be where a take is about to come.
  bool WantsFold(bool take_is_near) const {
    if (num_pending() == 0 || !CanFold() || IsSingleBorrowed()) return false;
    if (take_is_near) return num_pending() > options_.max_pending;
    return IsFull(num_pending()) || IsSmall();
  }
  // True if so much is pending that whoever brings more should wait for the fold that runs.
  bool IsOverfull() const {
    return CanFold() && (num_pending() >= 2 * options_.max_pending ||
                         (num_pending() > 1 && options_.budget->IsExceeded()));
  }
  // True if folding early makes a take noticeably faster.
  bool IsBig() const { return options_.adds_ahead && num_elements_ >= kBig; }

  // A fold in three parts; only the second may run without the lock, and no two at a time. Returns
  // how many gradients it adds: the longest pending.
  int64_t BeginFold() noexcept {
    if (HasRoomToAdd()) {
      std::swap(pending_, folding_);
    } else {
      folding_.blocks.push_back(std::move(pending_.blocks.front()));
      pending_.blocks.erase(pending_.blocks.begin());
    }
    fold_ = Operands(&folding_);
    fold_.out = wide_ ? wide_.data() : place_.data();
    fold_.out_is_float32 = static_cast<bool>(wide_);
    return static_cast<int64_t>(folding_.blocks.size());
  }
  bool RunFold(Workspace& workspace) noexcept {
    workspace.Sum(fold_);
    NoteFailure(workspace);
    num_folded_ = folding_.blocks.size();
    folding_.blocks.clear();
    return true;
  }
  void EndFold(bool /*succeeded*/) noexcept {
    Hold(-(GradientBytes() * num_folded_));
    has_sum_ = true;
    sum_is_wide_ = fold_.out_is_float32;
  }

  // What the round comes to, after `count` gradients. Cannot fail: it needs no memory. Not while a
  // fold runs; only Clear() may follow.
  Value Finish(int64_t count, Workspace& workspace) {
    DenseSumArgs args = Operands(&pending_);
    args.out = place_.data();
    args.divisor = options_.mean ? count : 1;
    if (args.out != args.first || args.num_inputs > 0 || args.divisor > 1) workspace.Sum(args);
    NoteFailure(workspace);
    return {std::move(place_), std::move(shape_), std::move(failure_)};
  }

  // Ends what has been added.
  void Clear() noexcept {
    Hold(-held_bytes_);
    pending_.blocks.clear();
    place_ = Block();
    wide_ = Block();
    has_sum_ = false;
    sum_is_wide_ = false;
    failure_ = Status();
  }

 private:
  static constexpr size_t kBig = 1 << 16;  // elements

  // Blocks to be added together, and room for their addresses.
  struct Batch {
    std::vector<Block> blocks;
    std::vector<const void*> operands;

    void Reserve(size_t capacity) {
      operands.reserve(capacity);
      blocks.reserve(capacity);
    }
  };

  DenseSumArgs Operands(Batch* batch) const noexcept {
    batch->operands.clear();
    for (const Block& block : batch->blocks) batch->operands.push_back(block.data());
    DenseSumArgs args;
    args.type = options_.type;
    args.num_elements = num_elements_;
    args.inputs = batch->operands.data();
    args.num_inputs = batch->operands.size();
    if (!has_sum_) {
      args.first = *args.inputs++;
      --args.num_inputs;
    } else {
      args.first = sum_is_wide_ ? wide_.data() : place_.data();
      args.first_is_float32 = sum_is_wide_;
    }
    return args;
  }

  // Small gradients are still in the cache when they come, and what is added early a take need not
  // add.
  bool IsSmall() const { return GradientBytes() <= options_.small_bytes; }
  // True if so many pending gradients should be added.
  bool IsFull(size_t num_pending) const {
    return num_pending >= options_.max_pending ||
           num_pending * GradientBytes() >= options_.max_pending_bytes ||
           options_.budget->IsExceeded();
  }
  size_t GradientBytes() const { return num_elements_ * SizeOf(options_.type); }

  // True if a fold would only copy a borrowed gradient that may as well stay where it is.
  bool IsSingleBorrowed() const {
    return options_.holds_borrowed && !has_sum_ && num_pending() == 1;
  }

  void NoteFailure(const Workspace& workspace) noexcept {
    if (!failure_.ok()) return;
    try {
      failure_ = workspace.failure();
    } catch (const std::bad_alloc&) {
      failure_ = Status(StatusCode::kInternal, "Out of memory");
    }
  }

  // Whether there is memory in which gradients can be added.
  bool HasRoomToAdd() const { return !SumsInFloat32(options_.type) || wide_; }

  void Hold(size_t bytes) noexcept {  // modulo 2^64: a negative number of bytes lets go
    held_bytes_ += bytes;
    options_.budget->Add(bytes);
  }

  const Options& options_;
  Shape shape_;
  size_t num_elements_ = 0;
  Block place_;               // of the sum; empty before the first gradient
  Block wide_;                // float32, where float16 and bfloat16 are added
  bool has_sum_ = false;      // some gradients are in place_ or wide_
  bool sum_is_wide_ = false;  // in wide_
  Status failure_;
  Batch pending_;
  size_t held_bytes_ = 0;
  Batch folding_;  // what the fold that runs adds
  DenseSumArgs fold_;
  size_t num_folded_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_DENSE_DENSE_SUM_H_
