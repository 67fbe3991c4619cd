// The sum of sparse gradients between two takes.
#ifndef CONDACC_CORE_SPARSE_SPARSE_SUM_H_
#define CONDACC_CORE_SPARSE_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

#include "cc/core/base/element_type.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/host_merger.h"
#include "cc/core/sparse/sparse_gradient.h"
#include "cc/core/sparse/sparse_parts.h"

namespace condacc {

// Keeps the gradients of one round in order of arrival, and merges many at a time: rows may come in
// any order and repeat, and go out ascending and unique. When what is pending has grown to some
// part of what was merged before, it is merged into that, so that memory stays near that of the
// result and the cost of a gradient does not grow with their number. Not thread-safe, except that a
// fold, PrepareFinish() and Finish() run without their caller's lock; gradients may be appended
// during a fold.
template <class Block, class Merger = HostMerger<Block>>
class SparseSum {
 public:
  using Options = SparseOptions<Block>;
  using Gradient = SparseGradient<Block>;
  using Workspace = typename Merger::Workspace;
  using Value = SparseValue<Block>;
  static constexpr bool kFinishNeedsMemory = true;

  explicit SparseSum(const Options& options) : options_(options), merger_(options) {}
  ~SparseSum() { Hold(-held_bytes_); }
  SparseSum(const SparseSum&) = delete;
  SparseSum& operator=(const SparseSum&) = delete;

  Status Check(const Gradient& gradient) const {
    return CheckSparseShapes(gradient.shapes, options_.shape,
                             is_empty_ ? nullptr : &merger_.shape());
  }

  bool CanAppend(const Gradient& gradient) const { return gradient.owned; }
  bool MustAddNow(const Gradient&) const { return false; }

  // Makes the gradient one that may be kept and whose rows are known to be good. Needs no lock.
  static Status Prepare(const Options& options, bool /*is_first*/, Workspace& workspace,
                        Gradient* gradient) {
    return Merger::Prepare(options, workspace, gradient);
  }

  bool empty() const { return is_empty_; }

  // Throws std::bad_alloc only, and then nothing has changed.
  void Append(Gradient gradient) {
    const size_t bytes = BytesOf(gradient);
    if (is_empty_) merger_.SetShape(gradient.shapes.values);
    pending_.push_back(std::move(gradient));
    is_empty_ = false;
    pending_bytes_ += bytes;
    Hold(bytes);
  }

  size_t num_pending() const { return pending_.size(); }
  bool CanFold() const { return true; }
  bool WantsFold(bool take_is_near) const {
    if (ExceedsBudget()) return true;
    if (take_is_near || num_pending() < kMinFold) return false;
    return pending_bytes_ >= FoldBytes() || num_pending() >= MaxPending();
  }
  bool IsOverfull() const {
    return ExceedsBudget() ||
           (num_pending() >= 2 * kMinFold &&
            (pending_bytes_ >= 2 * FoldBytes() || num_pending() >= 2 * MaxPending()));
  }
  bool IsBig() const { return false; }

  // A fold in three parts; only the second may run without the lock, and no two at a time. Returns
  // how many gradients it adds. If it fails for want of memory they are pending as before.
  int64_t BeginFold() noexcept {
    folding_.swap(pending_);
    folding_bytes_ = std::exchange(pending_bytes_, 0);
    return static_cast<int64_t>(folding_.size());
  }
  bool RunFold(Workspace& workspace) {
    if (!merger_.Fold(folding_, workspace)) return false;
    Release(&folding_);
    workspace.NoteFreed(folding_bytes_);
    return true;
  }
  void EndFold(bool succeeded) noexcept {
    if (succeeded) {
      Hold(-folding_bytes_);
      num_merged_ = merger_.num_rows();
      merged_bytes_ = merger_.num_bytes();
    } else {
      pending_.splice(pending_.begin(), folding_);
      pending_bytes_ += folding_bytes_;
    }
    folding_bytes_ = 0;
  }

  // Gets all memory that Finish() needs and changes nothing else. ResourceExhausted, or
  // std::bad_alloc, if memory is short; nothing has been prepared then.
  Status PrepareFinish(int64_t count, Workspace& workspace) {
    return merger_.PrepareFinish(pending_, count, workspace);
  }
  void AbandonFinish() { merger_.AbandonFinish(); }

  // What the round comes to. After PrepareFinish(), with nothing in between. Cannot fail: what was
  // merged is given up while the result is written. Only Clear() may follow.
  Value Finish(int64_t count, Workspace& workspace) {
    return merger_.Finish(&pending_, count, workspace);
  }

  // Ends what has been added.
  void Clear() {
    Hold(-held_bytes_);
    Release(&pending_);
    pending_bytes_ = 0;
    merger_.Clear();
    num_merged_ = 0;
    merged_bytes_ = 0;
    is_empty_ = true;
  }

 private:
  static constexpr size_t kMinFold = 4;             // gradients
  static constexpr size_t kMaxPending = 1024;       // gradients
  static constexpr size_t kBookkeepingBytes = 256;  // of a gradient that may have no rows at all

  // True if the budget is exceeded and there are pending gradients to fold. Gradients that are
  // small compared with the sums are kept all the same, since each fold walks all merged rows.
  bool ExceedsBudget() const {
    return num_pending() > 1 && options_.budget->IsExceeded() &&
           pending_bytes_ >= merged_bytes_ / 16;
  }

  size_t FoldBytes() const {
    const size_t part = merged_bytes_ / 20 * 9;
    return part > options_.fold_bytes ? part : options_.fold_bytes;
  }

  // Many tiny gradients: not so few that walking the merged rows for them would weigh.
  size_t MaxPending() const { return kMaxPending + num_merged_ / 16; }

  size_t BytesOf(const Gradient& gradient) const {
    const size_t elements = static_cast<size_t>(gradient.shapes.values.num_elements());
    return kBookkeepingBytes + gradient.survey.list.size * sizeof(int64_t) +
           elements * SizeOf(options_.type);
  }

  // Ends gradients whose values have been added.
  void Release(std::list<Gradient>* gradients) {
    for (Gradient& g : *gradients) {
      if (!g.is_a_copy || !g.values) continue;
      const size_t bytes = BytesOf(g);
      options_.spares->Give(std::move(g.values), g.shapes.values, bytes);
    }
    gradients->clear();
  }

  void Hold(size_t bytes) noexcept {  // modulo 2^64: a negative number of bytes lets go
    held_bytes_ += bytes;
    options_.budget->Add(bytes);
  }

  const Options& options_;
  bool is_empty_ = true;
  std::list<Gradient> pending_;
  size_t pending_bytes_ = 0;
  size_t held_bytes_ = 0;
  std::list<Gradient> folding_;
  size_t folding_bytes_ = 0;
  Merger merger_;
  size_t num_merged_ = 0;  // rows, by the folds that have ended
  size_t merged_bytes_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_SUM_H_
