// The sum of sparse gradients between two takes.
#ifndef CONDACC_CORE_SPARSE_SPARSE_SUM_H_
#define CONDACC_CORE_SPARSE_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/gradient_order.h"
#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_rows.h"
#include "cc/core/sparse/host_rows.h"
#include "cc/core/sparse/row_format.h"

namespace condacc {

// Keeps the gradients of one round in order of arrival, or in that of their contributors (see
// SumOptions), and merges many of them at once. The indices of a gradient may be in any order and
// repeat; those of the result ascend and are unique. A fold merges the pending gradients into the
// rows merged before once they have at least SumOptions::fold_bytes, 45 % of the bytes of these
// rows, and 75 % of those of the last result (AdviseFold() has all rules). So the memory stays
// close to that of the result, and the cost of a gradient does not grow with the number of
// gradients.
//
// `Rows` is HostRows or DeviceRows.
template <class Rows>
class SparseSum final : public RoundSum {
 public:
  explicit SparseSum(const SumOptions& options)
      : RoundSum(options), order_(options), rows_(options, format_) {}

  Status Check(const Gradient& gradient) const override;
  Missing MissingFrom(const Gradient& gradient) const override {
    return gradient.is_kept ? Missing::kNothing : Missing::kKeptCopy;
  }
  Status Supply(Missing missing, Workspace& workspace, Gradient* gradient) const override;
  Appended Append(Gradient&& gradient) override;
  Advice Advise(const NextTake& next_take) const override;
  int64_t BeginFold() noexcept override;
  void RunFold(Workspace& workspace) noexcept override;
  bool EndFold() noexcept override;
  SumKind kind() const override { return SumKind::kSparse; }
  Status BeginSave(SavedSum* saved) override;
  Status CheckEarly(const SavedGradient& early, const int64_t* indices) const override;
  Status RunSave(Workspace& workspace, SumPlacer place) override {
    return rows_.RunSave(OfRows(workspace), place);
  }
  Status Restore(const SavedSum& saved, Workspace& workspace) override;
  bool needs_preparation() const override { return true; }
  Status PrepareFinish(Workspace& workspace) override {
    return rows_.PrepareFinish(&pending_, order_.TotalWeight(), OfRows(workspace));
  }
  const Shape& value_shape() const override { return rows_.value_shape(); }
  void AbandonFinish() override { rows_.AbandonFinish(); }
  // Frees the merged rows while the result is written.
  Value Finish(Workspace& workspace) noexcept override { return rows_.Finish(OfRows(workspace)); }
  void Clear() noexcept override;

  // Returns the number of pending gradients that can be folded: all but the early ones.
  size_t num_pending() const { return pending_.size() - order_.num_early(); }

 private:
  // All calls of one accumulator pass workspaces of the same type.
  static typename Rows::Workspace& OfRows(Workspace& workspace) {
    return static_cast<typename Rows::Workspace&>(workspace);
  }
  // Moves the gradient that was appended last to its place in the order of contributors. Without
  // contributors, only counts its bytes as pending.
  Appended PutInOrder() noexcept;
  // Returns where the early gradients begin in `pending_`.
  std::list<Gradient>::iterator FirstEarly() {
    return early_.empty() ? pending_.end() : early_.front();
  }

  size_t BytesOf(const Gradient& gradient) const;

  GradientOrder order_;
  std::list<Gradient> pending_;  // In the order in which they are added: the early ones last.
  // Points to the early gradients, in their order. Has room for all gradients of `order_`.
  std::vector<std::list<Gradient>::iterator> early_;
  size_t pending_bytes_ = 0;     // Bytes of the first num_pending().
  std::list<Gradient> folding_;  // The gradients that the current fold merges.
  size_t folding_bytes_ = 0;
  bool has_folded_ = false;  // If true, the last RunFold() has merged `folding_`.
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
