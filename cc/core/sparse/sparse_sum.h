// The sum of sparse gradients between two takes.
#ifndef CONDACC_CORE_SPARSE_SPARSE_SUM_H_
#define CONDACC_CORE_SPARSE_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_rows.h"
#include "cc/core/sparse/host_rows.h"
#include "cc/core/sparse/row_format.h"

namespace condacc {

// Keeps the gradients of one round, and merges many of them at once. The indices of a gradient may
// be in any order and repeat; those of the result ascend and are unique. A fold merges the pending
// gradients into the rows merged before once they have at least SumOptions::fold_bytes, 45 % of the
// bytes of these rows, and 75 % of those of the last result (AdviseFold() has all rules). So the
// memory stays close to that of the result, and the cost of a gradient does not grow with the
// number of gradients.
//
// `Rows` is HostRows or DeviceRows.
template <class Rows>
class SparseSum final : public RoundSum {
 public:
  explicit SparseSum(const SumOptions& options) : RoundSum(options), rows_(options, format_) {}

  Status Check(const Gradient& gradient, const Shape* early) const override;
  Missing MissingFrom(const Gradient& gradient, bool /*is_early*/) const override {
    return gradient.is_kept ? Missing::kNothing : Missing::kKeptCopy;
  }
  Status Supply(Missing missing, Workspace& workspace, Gradient* gradient) const override;
  Appended Append(Gradient&& gradient) override;
  Advice Advise(const NextTake& next_take) const override;
  int64_t BeginFold() noexcept override;
  void RunFold(Workspace& workspace) noexcept override;
  bool EndFold() noexcept override;
  SumKind kind() const override { return SumKind::kSparse; }
  double BeginSave() override;
  Status RunSave(Workspace& workspace, StateMemory& memory) override {
    return rows_.RunSave(OfRows(workspace), memory);
  }
  Status Restore(const SavedSum& saved, Workspace& workspace) override;
  bool needs_preparation() const override { return true; }
  Status PrepareFinish(std::vector<Gradient*> early, Workspace& workspace) override;
  const Shape& value_shape() const override { return rows_.value_shape(); }
  void AbandonFinish() override { rows_.AbandonFinish(); }
  // Frees the merged rows while the result is written.
  Value Finish(Workspace& workspace) noexcept override { return rows_.Finish(OfRows(workspace)); }
  void Clear() noexcept override;

  size_t num_pending() const { return pending_.size(); }

 private:
  // All calls of one accumulator pass workspaces of the same type.
  static typename Rows::Workspace& OfRows(Workspace& workspace) {
    return static_cast<typename Rows::Workspace&>(workspace);
  }

  std::list<Addend> pending_;
  size_t pending_bytes_ = 0;
  std::list<Addend> folding_;  // The gradients that the current fold merges.
  size_t folding_bytes_ = 0;
  bool has_folded_ = false;  // If true, the last RunFold() has merged `folding_`.
  bool is_empty_ = true;     // No gradient has been appended.
  RowFormat format_;
  Rows rows_;
  // The number of merged rows at the last EndFold(): Advise() may run beside RunFold().
  size_t num_merged_ = 0;
};

// The SumFactory of sparse sums.
template <class Rows>
std::unique_ptr<RoundSum> NewSparseSum(const SumOptions& options) {
  return std::make_unique<SparseSum<Rows>>(options);
}

extern template class SparseSum<HostRows>;
extern template class SparseSum<DeviceRows>;

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_SUM_H_
