// The sum of sparse gradients between two takes.
#ifndef CONDACC_CORE_SPARSE_SPARSE_SUM_H_
#define CONDACC_CORE_SPARSE_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "cc/core/accumulator/sum_contract.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merger.h"
#include "cc/core/sparse/host_merger.h"
#include "cc/core/sparse/sparse_parts.h"

namespace condacc {

// Keeps the gradients of one round in order of arrival, and merges many at a time: rows may come in
// any order and repeat, and go out ascending and unique. When what is pending has grown to some
// part of what was merged before, it is merged into that, so that memory stays near that of the
// result and the cost of a gradient does not grow with their number.
//
// `Merger`: HostMerger or DeviceMerger.
template <class Merger>
class SparseSum {
 public:
  using Options = SparseOptions;
  using Gradient = SparseGradient;
  using Workspace = typename Merger::Workspace;
  using Value = SparseValue;
  enum class Need {
    kNothing,
    kRows,  // Good rows, in memory that may be kept.
  };
  static constexpr bool kFinishNeedsMemory = true;

  explicit SparseSum(const Options& options) : options_(options), merger_(options) {}
  ~SparseSum() { Hold(-held_bytes_); }
  SparseSum(const SparseSum&) = delete;
  SparseSum& operator=(const SparseSum&) = delete;

  // See SumContract.
  Status Check(const Gradient& gradient) const;
  Need NeedOf(const Gradient& gradient) const {
    return gradient.rows.has_value() ? Need::kNothing : Need::kRows;
  }
  static Status Prepare(const Options& options, Need need, Workspace& workspace,
                        Gradient* gradient);
  Appended Append(Gradient gradient);
  bool WantsFold(bool take_is_near) const;
  bool WantsFoldAhead() const { return false; }
  bool IsOverfull() const;
  int64_t BeginFold() noexcept;
  void RunFold(Workspace& workspace);
  bool EndFold() noexcept;
  Status PrepareFinish(Workspace& workspace) {
    return merger_.PrepareFinish(&pending_, count_, workspace);
  }
  void AbandonFinish() { merger_.AbandonFinish(); }
  // What was merged is given up while the result is written.
  Value Finish(Workspace& workspace) { return merger_.Finish(workspace); }
  void Clear();

  size_t num_pending() const { return pending_.size(); }

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
  int64_t count_ = 0;  // Gradients appended.
  std::list<KeptRows> pending_;
  size_t pending_bytes_ = 0;
  size_t held_bytes_ = 0;
  std::list<KeptRows> folding_;
  size_t folding_bytes_ = 0;
  bool has_folded_ = false;  // Whether the fold that ran has merged them.
  Merger merger_;
  size_t num_merged_ = 0;  // rows, by the folds that have ended
  size_t merged_bytes_ = 0;
};

extern template class SparseSum<HostMerger>;
extern template class SparseSum<DeviceMerger>;

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_SUM_H_
