// The sum of dense gradients between two takes.
#ifndef CONDACC_CORE_DENSE_SUM_H_
#define CONDACC_CORE_DENSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/dense_math.h"
#include "cc/core/element_type.h"
#include "cc/core/hold_budget.h"
#include "cc/core/shape.h"
#include "cc/core/status.h"

namespace condacc {

// What all rounds of one accumulator have in common.
struct DenseOptions {
  ElementType type = ElementType::kFloat32;
  Shape shape = Shape::UnknownRank();
  bool mean = true;
  HoldBudget* budget = &HoldBudget::Global();
};

// What a call into the accumulator may work with. `Block` is a piece of memory with its owner:
// movable, `void* data()`, and a default-constructed one is empty (`explicit operator bool`).
template <class Block>
class DenseWorkspace {
 public:
  virtual ~DenseWorkspace() = default;
  virtual Status Allocate(ElementType type, const Shape& shape, Block* block) = 0;
  virtual void Copy(void* to, const void* from, size_t num_bytes) = 0;
  virtual void Sum(const DenseSumArgs& args) = 0;
};

template <class Block>
struct DenseGradient {
  Block block;
  Shape shape;
  bool owned = false;  // nobody else reads or writes the block: it may be kept and written to
  Block wide;          // memory for a float32 sum, brought along when the sum asked for it
};

// Keeps the gradients of one round in order of arrival, and adds them several at a time.
//
// The first gradient must be owned and becomes the place where the sum grows and in which it is
// handed out, so that taking it needs no memory. (float16 and bfloat16 grow in a float32 block of
// their own.) Later ones are pending until a fold adds them. Not thread-safe, except that a fold
// runs without its caller's lock while further gradients are appended.
template <class Block>
class DenseSum {
 public:
  using Options = DenseOptions;
  using Gradient = DenseGradient<Block>;
  using Workspace = DenseWorkspace<Block>;
  struct Value {
    Block block;
    Shape shape;
  };

  explicit DenseSum(const Options& options) : options_(options) {
    pending_.Reserve(kMaxPending + 1);
    folding_.Reserve(kMaxPending + 1);
  }
  ~DenseSum() { Clear(); }
  DenseSum(const DenseSum&) = delete;
  DenseSum& operator=(const DenseSum&) = delete;

  Status Check(const Gradient& gradient) const {
    const Shape& expected = first_ ? shape_ : options_.shape;
    if (expected.IsCompatibleWith(gradient.shape)) return Status();
    return Status(StatusCode::kInvalidArgument, "Shape mismatch: expected " + expected.ToString() +
                                                    ", got " + gradient.shape.ToString());
  }

  // False if the gradient has to be prepared first.
  bool CanAppend(const Gradient& gradient) const {
    if (!first_) return gradient.owned;
    const bool will_fold =
        !gradient.owned || num_pending() + 1 >= kMaxPending || options_.budget->IsExceeded();
    return !will_fold || CanFold() || gradient.wide;
  }

  // Gives the gradient what CanAppend() missed. Needs no lock; on an error nothing has changed.
  // Memory for wide sums is asked for one gradient early, in case the budget runs out meanwhile.
  static Status Prepare(const Options& options, bool is_first, Workspace& workspace,
                        Gradient* gradient) {
    if (!is_first) {
      return workspace.Allocate(ElementType::kFloat32, gradient->shape, &gradient->wide);
    }
    Block copy;
    const Status status = workspace.Allocate(options.type, gradient->shape, &copy);
    if (!status.ok()) return status;
    const size_t num_elements = static_cast<size_t>(gradient->shape.num_elements());
    workspace.Copy(copy.data(), gradient->block.data(), num_elements * SizeOf(options.type));
    gradient->block = std::move(copy);
    gradient->owned = true;
    return Status();
  }

  bool empty() const { return !first_; }

  // Throws std::bad_alloc only, and then nothing has changed.
  void Append(Gradient gradient) {
    // A fold may be running, whose batch is not touched.
    if (num_pending() == pending_.blocks.capacity()) pending_.Reserve(2 * num_pending());
    if (!wide_) wide_ = std::move(gradient.wide);
    if (!first_) {
      shape_ = std::move(gradient.shape);
      num_elements_ = static_cast<size_t>(shape_.num_elements());
      first_ = std::move(gradient.block);
      return;
    }
    pending_.blocks.push_back(std::move(gradient.block));
    Hold(num_elements_ * SizeOf(options_.type));
  }

  size_t num_pending() const { return pending_.blocks.size(); }
  bool CanFold() const { return !SumsInFloat32(options_.type) || wide_; }

  // True if more should not be held back. One more may be where a take is about to come.
  bool WantsFold(bool take_is_near) const {
    if (num_pending() == 0 || !CanFold()) return false;
    if (take_is_near) return num_pending() > kMaxPending;
    return num_pending() >= kMaxPending || options_.budget->IsExceeded();
  }
  // True if so much is pending that whoever brings more should wait for the fold that runs.
  bool IsOverfull() const {
    return CanFold() && (num_pending() >= 2 * kMaxPending ||
                         (num_pending() > 1 && options_.budget->IsExceeded()));
  }
  // True if folding early makes a take noticeably faster.
  bool IsBig() const { return num_elements_ >= kBig; }

  // A fold in three parts; only the second may run without the lock, and no two at a time.
  void BeginFold() noexcept {
    std::swap(pending_, folding_);
    fold_ = Operands(&folding_);
    fold_.out = wide_ ? wide_.data() : first_.data();
    fold_.out_is_float32 = static_cast<bool>(wide_);
  }
  void RunFold(Workspace& workspace) const { workspace.Sum(fold_); }
  void EndFold() noexcept {
    Hold(-(num_elements_ * SizeOf(options_.type) * folding_.blocks.size()));
    folding_.blocks.clear();
    folded_ = true;
  }

  // What the round comes to, after `count` gradients, and an empty sum. Cannot fail: it needs no
  // memory. Not while a fold runs.
  Value Finish(int64_t count, Workspace& workspace) {
    DenseSumArgs args = Operands(&pending_);
    args.out = first_.data();
    args.divisor = options_.mean ? count : 1;
    if (args.num_inputs > 0 || args.divisor > 1 || args.first_is_float32) workspace.Sum(args);
    Value value{std::move(first_), std::move(shape_)};
    Clear();
    return value;
  }

 private:
  static constexpr size_t kMaxPending = 7;
  static constexpr size_t kBig = 1 << 16;

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
    args.first_is_float32 = folded_ && wide_;
    args.first = args.first_is_float32 ? wide_.data() : first_.data();
    args.inputs = batch->operands.data();
    args.num_inputs = batch->operands.size();
    return args;
  }

  void Clear() noexcept {
    Hold(-held_bytes_);
    pending_.blocks.clear();
    first_ = Block();
    wide_ = Block();
    folded_ = false;
  }

  void Hold(size_t bytes) noexcept {  // modulo 2^64: a negative number of bytes lets go
    held_bytes_ += bytes;
    options_.budget->Add(bytes);
  }

  const Options& options_;
  Shape shape_;
  size_t num_elements_ = 0;
  Block first_;  // the first gradient; after a fold the sum, unless that is wide
  Block wide_;   // float32: the sum of float16 and bfloat16 once there was a fold
  bool folded_ = false;
  Batch pending_;
  size_t held_bytes_ = 0;
  Batch folding_;  // what the fold that runs adds
  DenseSumArgs fold_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_DENSE_SUM_H_
