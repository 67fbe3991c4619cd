// The sum of sparse gradients between two takes.
#ifndef CONDACC_CORE_SPARSE_SPARSE_SUM_H_
#define CONDACC_CORE_SPARSE_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "cc/core/accumulator/sum_contract.h"
#include "cc/core/base/invariant.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_rows.h"
#include "cc/core/sparse/host_rows.h"
#include "cc/core/sparse/row_format.h"
#include "cc/core/sparse/sparse_gradient.h"

namespace condacc {

// Keeps the gradients of one round in order of arrival, and merges many of them at once. The
// indices of a gradient may be in any order and repeat; those of the result ascend and are unique.
// A fold merges the pending gradients into the rows merged before once they have at least
// SparseOptions::fold_bytes and 45 % of the bytes of these rows. So the memory stays near that of
// the result, and the cost of a gradient does not grow with the number of gradients.
//
// `Rows` is HostRows or DeviceRows.
template <class Rows>
class SparseSum {
 public:
  using Options = SparseOptions;
  using Gradient = SparseGradient;
  using Workspace = typename Rows::Workspace;
  using Value = SparseValue;
  enum class Missing {
    kNothing,
    kKept,  // The gradient has not been checked yet and moved to memory that may be kept.
  };
  static constexpr bool kFinishNeedsMemory = true;

  explicit SparseSum(const Options& options) : options_(options), rows_(options, format_) {}
  ~SparseSum() { Hold(-held_bytes_); }
  SparseSum(const SparseSum&) = delete;
  SparseSum& operator=(const SparseSum&) = delete;

  // See SumContract.
  Status Check(const Gradient& gradient) const;
  Missing MissingFrom(const Gradient& gradient) const {
    return gradient.kept.has_value() ? Missing::kNothing : Missing::kKept;
  }
  static Status Prepare(const Options& options, Missing missing, Workspace& workspace,
                        Gradient* gradient);
  Appended Append(Gradient gradient);
  bool WantsFold(int64_t num_missing) const;
  bool IsOverfull() const;
  int64_t BeginFold() noexcept;
  void RunFold(Workspace& workspace) noexcept;
  bool EndFold() noexcept;
  Status PrepareFinish(Workspace& workspace);
  const std::vector<int64_t>& refused() const { return refused_; }
  void RemoveRefused() noexcept;
  void AbandonFinish() { rows_.AbandonFinish(); }
  // Frees the merged rows piece by piece while the result is written.
  Value Finish(Workspace& workspace) noexcept {
    CONDACC_INVARIANT(refused_.empty());
    return rows_.Finish(workspace);
  }
  void Clear() noexcept;

  size_t num_pending() const { return pending_.size(); }

 private:
  // Returns whether the budget is exceeded and there are pending gradients to fold.
  bool ExceedsBudget() const;
  // A fold is worth its cost once the pending gradients have this many bytes, or are this many.
  size_t FoldBytes() const;
  size_t MaxPending() const;

  size_t BytesOf(const KeptGradient& gradient) const;
  // Frees gradients whose values have been added. Memory of copies goes to the spares.
  void Release(std::list<KeptGradient>* gradients);
  // Returns whether the rows could not add the gradient.
  static bool IsBad(const KeptGradient& gradient) { return !gradient.failure.ok(); }
  // Moves bad gradients to `bad_`.
  void MoveBad(std::list<KeptGradient>* gradients) noexcept;
  // Outputs the numbers of all bad gradients to `refused_`, and returns the error of the first.
  Status RefuseBad();
  // Adds to the bytes that count against the budget, modulo 2^64: a negated number gives bytes
  // back.
  void Hold(size_t bytes) noexcept {
    held_bytes_ += bytes;
    options_.budget->Add(bytes);
  }

  const Options& options_;
  int64_t num_appended_ = 0;  // Number of appended gradients.
  int64_t count_ = 0;         // Number of these that were not removed.
  std::list<KeptGradient> pending_;
  size_t pending_bytes_ = 0;
  size_t held_bytes_ = 0;
  std::list<KeptGradient> folding_;  // The gradients that the current fold merges.
  size_t folding_bytes_ = 0;
  bool has_folded_ = false;       // If true, the last RunFold() has merged `folding_`.
  std::list<KeptGradient> bad_;   // The gradients that folds could not add, in order of arrival.
  std::vector<int64_t> refused_;  // The numbers of those that the last PrepareFinish() refused.
  RowFormat format_;
  Rows rows_;
  // Number of rows, and bytes of their sums, that the folds so far have merged.
  size_t num_merged_ = 0;
  size_t merged_bytes_ = 0;
};

extern template class SparseSum<HostRows>;
extern template class SparseSum<DeviceRows>;

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_SUM_H_
