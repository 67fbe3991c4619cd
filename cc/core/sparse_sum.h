// The sum of sparse gradients between two takes.
#ifndef CONDACC_CORE_SPARSE_SUM_H_
#define CONDACC_CORE_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "cc/core/element_type.h"
#include "cc/core/hold_budget.h"
#include "cc/core/parallel_for.h"
#include "cc/core/shape.h"
#include "cc/core/spare_blocks.h"
#include "cc/core/sparse_gradient.h"
#include "cc/core/sparse_merge.h"
#include "cc/core/status.h"
#include "cc/core/sum_chunk.h"

namespace condacc {

// What the sum of a row is divided by: the number of gradients it was in, nothing, or the number of
// all gradients.
enum class SparseReduction { kMean, kSum, kGlobalMean };

template <class Block>
struct SparseOptions {
  ElementType type = ElementType::kFloat32;
  Shape shape = Shape::UnknownRank();
  SparseReduction reduction = SparseReduction::kMean;
  size_t fold_bytes = size_t{240} << 20;  // what is pending is not folded before it is as much
  size_t trim_bytes = size_t{64} << 20;   // a fold that frees as much has the memory given back
  HoldBudget* budget = &HoldBudget::Global();
  // Where copies of values are made that were not owned.
  std::shared_ptr<SpareBlocks<Block>> spares =
      std::make_shared<SpareBlocks<Block>>(size_t{64} << 20, &HoldBudget::Global());
};

// What a call into the accumulator may work with; `Block` as for DenseWorkspace, and in addition
// Discard(num_bytes) tells it that its first bytes, so many, will not be read again.
template <class Block>
class SparseWorkspace {
 public:
  virtual ~SparseWorkspace() = default;
  virtual Status Allocate(ElementType type, const Shape& shape, Block* block) = 0;
  // For what nobody else will see: sums that are merged before the take, and what merging works
  // with. It is they that are discarded.
  virtual Status AllocateInner(ElementType type, const Shape& shape, Block* block) = 0;
  // Much of what others allocated has just been freed: it may go back to where it came from.
  virtual void TrimFreed() = 0;
  virtual const ParallelFor& parallel_for() const = 0;
};

template <class Block>
struct SparseGradient {
  SparseShapes shapes;
  Block indices;  // int64, or int32 until the gradient is prepared
  Block values;
  bool indices_are_int32 = false;
  bool owns_indices = false;  // nobody else writes the block: it may be kept
  bool owns_values = false;
  // By Prepare():
  bool owned = false;      // all of it may be kept
  bool is_a_copy = false;  // the values: their memory may be used again
  RowSurvey survey;
};

// Keeps the gradients of one round in order of arrival, and merges many at a time: rows may come in
// any order and repeat, and go out ascending and unique. When what is pending has grown to some
// part of what was merged before, it is merged into that, so that memory stays near that of the
// result and the cost of a gradient does not grow with their number. Not thread-safe, except that a
// fold, PrepareFinish() and Finish() run without their caller's lock; gradients may be appended
// during a fold.
template <class Block>
class SparseSum {
 public:
  using Options = SparseOptions<Block>;
  using Gradient = SparseGradient<Block>;
  using Workspace = SparseWorkspace<Block>;
  struct Value {
    Block indices;
    Block values;
    Shape shape;  // of the values
  };
  static constexpr bool kFinishNeedsMemory = true;

  explicit SparseSum(const Options& options) : options_(options) {}
  ~SparseSum() { Hold(-held_bytes_); }
  SparseSum(const SparseSum&) = delete;
  SparseSum& operator=(const SparseSum&) = delete;

  Status Check(const Gradient& gradient) const {
    return CheckSparseShapes(gradient.shapes, options_.shape, is_empty_ ? nullptr : &shape_);
  }

  bool CanAppend(const Gradient& gradient) const { return gradient.owned; }
  bool MustAddNow(const Gradient&) const { return false; }

  // Makes the gradient one that may be kept and whose rows are known to be good. Needs no lock.
  static Status Prepare(const Options& options, bool /*is_first*/, Workspace& workspace,
                        Gradient* gradient);

  bool empty() const { return is_empty_; }

  // Throws std::bad_alloc only, and then nothing has changed.
  void Append(Gradient gradient) {
    const size_t bytes = BytesOf(gradient);
    if (is_empty_) SetShape(gradient.shapes.values);
    pending_.push_back(std::move(gradient));
    is_empty_ = false;
    pending_bytes_ += bytes;
    Hold(bytes);
  }

  size_t num_pending() const { return pending_.size(); }
  bool CanFold() const { return true; }
  bool WantsFold(bool take_is_near) const {
    if (take_is_near || num_pending() < kMinFold) return false;
    return pending_bytes_ >= FoldBytes() || num_pending() >= MaxPending() ||
           (options_.budget->IsExceeded() && pending_bytes_ >= merged_bytes_ / 16);
  }
  bool IsOverfull() const {
    return num_pending() >= 2 * kMinFold &&
           (pending_bytes_ >= 2 * FoldBytes() || num_pending() >= 2 * MaxPending());
  }
  bool IsBig() const { return false; }

  // A fold in three parts; only the second may run without the lock, and no two at a time. Returns
  // how many gradients it adds. If it fails for want of memory they are pending as before.
  int64_t BeginFold() noexcept {
    folding_.swap(pending_);
    folding_bytes_ = std::exchange(pending_bytes_, 0);
    return static_cast<int64_t>(folding_.size());
  }
  bool RunFold(Workspace& workspace);
  void EndFold(bool succeeded) noexcept {
    if (succeeded) {
      Hold(-folding_bytes_);
      merged_bytes_ = merged_.size() * layout_.num_sum_bytes();
    } else {
      pending_.splice(pending_.begin(), folding_);
      pending_bytes_ += folding_bytes_;
    }
    folding_bytes_ = 0;
  }

  // Gets all memory that Finish() needs and changes nothing else. ResourceExhausted, or
  // std::bad_alloc, if memory is short; nothing has been prepared then.
  Status PrepareFinish(int64_t count, Workspace& workspace);
  void AbandonFinish() { output_.reset(); }

  // What the round comes to, and an empty sum. After PrepareFinish(), with nothing in between.
  // Cannot fail: what was merged is given up while the result is written.
  Value Finish(int64_t count, Workspace& workspace);

 private:
  static constexpr size_t kMinFold = 4;             // gradients
  static constexpr size_t kMaxPending = 1024;       // gradients
  static constexpr size_t kBookkeepingBytes = 256;  // of a gradient that may have no rows at all

  static constexpr size_t kMinDiscarded = size_t{4} << 20;  // bytes, of all that might be

  // Gradients that are merged, and the memory for it.
  struct Merging {
    std::vector<RowSource> sources;
    Block entries;
    std::optional<SparseMerge> merge;
  };
  // A result that is to be written.
  struct Output {
    Merging merging;  // nothing if a gradient is handed out
    Value value;
  };

  size_t FoldBytes() const {
    const size_t part = merged_bytes_ / 20 * 9;
    return part > options_.fold_bytes ? part : options_.fold_bytes;
  }

  // Many tiny gradients: not so few that walking the merged rows for them would weigh.
  size_t MaxPending() const { return kMaxPending + merged_.size() / 16; }

  // A single gradient whose rows are in order is its own result.
  bool IsForwarded(int64_t count) const {
    return count == 1 && merged_.size() == 0 && pending_.size() == 1 &&
           pending_.front().survey.is_ascending;
  }

  size_t BytesOf(const Gradient& gradient) const {
    const size_t elements = static_cast<size_t>(gradient.shapes.values.num_elements());
    return kBookkeepingBytes + gradient.survey.list.size * sizeof(int64_t) +
           elements * SizeOf(options_.type);
  }

  void SetShape(const Shape& values) {
    shape_ = values;
    layout_.type = options_.type;
    layout_.width = 1;
    for (int i = 1; i < values.rank(); ++i) layout_.width *= static_cast<size_t>(values.dim(i));
  }

  Status StartMerging(const std::list<Gradient>& gradients, Workspace& workspace,
                      Merging* merging) const;
  void Write(int64_t count, const Value& value, Workspace& workspace);

  // Ends gradients whose values have been added.
  void Release(std::list<Gradient>* gradients) {
    for (Gradient& g : *gradients) {
      if (!g.is_a_copy || !g.values) continue;
      const size_t bytes = BytesOf(g);
      options_.spares->Give(std::move(g.values), g.shapes.values, bytes);
    }
    gradients->clear();
  }

  void Clear() {
    Hold(-held_bytes_);
    Release(&pending_);
    pending_bytes_ = 0;
    merged_ = MergedRows();
    merged_bytes_ = 0;
    chunks_.clear();
    is_empty_ = true;
  }

  void Hold(size_t bytes) noexcept {  // modulo 2^64: a negative number of bytes lets go
    held_bytes_ += bytes;
    options_.budget->Add(bytes);
  }

  const Options& options_;
  bool is_empty_ = true;
  Shape shape_;  // of the first gradient's values
  RowLayout layout_;
  std::list<Gradient> pending_;
  size_t pending_bytes_ = 0;
  size_t held_bytes_ = 0;
  std::list<Gradient> folding_;
  size_t folding_bytes_ = 0;
  MergedRows merged_;
  std::vector<SumChunk<Block>> chunks_;  // where the merged sums lie
  size_t merged_bytes_ = 0;
  std::unique_ptr<Output> output_;  // from PrepareFinish() on
};

}  // namespace condacc

#include "cc/core/sparse_sum_impl.h"  // IWYU pragma: export

#endif  // CONDACC_CORE_SPARSE_SUM_H_
