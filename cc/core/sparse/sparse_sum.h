// The sum of sparse gradients between two takes.
#ifndef CONDACC_CORE_SPARSE_SPARSE_SUM_H_
#define CONDACC_CORE_SPARSE_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merger.h"
#include "cc/core/sparse/host_merger.h"
#include "cc/core/sparse/sparse_parts.h"

namespace condacc {

// Keeps the gradients of one round in order of arrival, and merges many at a time: rows may come in
// any order and repeat, and go out ascending and unique. When what is pending has grown to some
// part of what was merged before, it is merged into that, so that memory stays near that of the
// result and the cost of a gradient does not grow with their number. Not thread-safe, except that a
// fold, PrepareFinish() and Finish() run without their caller's lock; gradients may be appended
// during a fold.
//
// `Merger`: HostMerger or DeviceMerger.
template <class Merger>
class SparseSum {
 public:
  using Options = SparseOptions;
  using Gradient = SparseGradient;
  using Workspace = typename Merger::Workspace;
  using Value = SparseValue;
  static constexpr bool kFinishNeedsMemory = true;

  explicit SparseSum(const Options& options) : options_(options), merger_(options) {}
  ~SparseSum() { Hold(-held_bytes_); }
  SparseSum(const SparseSum&) = delete;
  SparseSum& operator=(const SparseSum&) = delete;

  Status Check(const Gradient& gradient) const;

  bool CanAppend(const Gradient& gradient) const { return gradient.rows.has_value(); }
  bool MustAddNow(const Gradient&) const { return false; }

  // Makes rows of the gradient that may be kept. Needs no lock.
  static Status Prepare(const Options& options, bool /*is_first*/, Workspace& workspace,
                        Gradient* gradient) {
    return Merger::Prepare(options, workspace, gradient);
  }

  bool empty() const { return is_empty_; }

  // Throws std::bad_alloc only, and then nothing has changed.
  void Append(Gradient gradient);

  size_t num_pending() const { return pending_.size(); }
  bool CanFold() const { return true; }
  bool WantsFold(bool take_is_near) const;
  bool IsOverfull() const;
  bool IsBig() const { return false; }

  // A fold in three parts; only the second may run without the lock, and no two at a time. Returns
  // how many gradients it adds. If it fails for want of memory they are pending as before.
  int64_t BeginFold() noexcept;
  bool RunFold(Workspace& workspace);
  void EndFold(bool succeeded) noexcept;

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
  void Clear();

 private:
  // True if the budget is exceeded and there are pending gradients to fold.
  bool ExceedsBudget() const;
  // So much pending is worth a fold.
  size_t FoldBytes() const;
  size_t MaxPending() const;

  size_t BytesOf(const KeptRows& rows) const;
  // Ends gradients whose values have been added.
  void Release(std::list<KeptRows>* gradients);
  // Modulo 2^64: a negative number of bytes lets go.
  void Hold(size_t bytes) noexcept {
    held_bytes_ += bytes;
    options_.budget->Add(bytes);
  }

  const Options& options_;
  bool is_empty_ = true;
  std::list<KeptRows> pending_;
  size_t pending_bytes_ = 0;
  size_t held_bytes_ = 0;
  std::list<KeptRows> folding_;
  size_t folding_bytes_ = 0;
  Merger merger_;
  size_t num_merged_ = 0;  // rows, by the folds that have ended
  size_t merged_bytes_ = 0;
};

extern template class SparseSum<HostMerger>;
extern template class SparseSum<DeviceMerger>;

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_SUM_H_
