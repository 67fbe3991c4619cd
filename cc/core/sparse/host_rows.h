// Merges sparse gradients in host memory.
#ifndef CONDACC_CORE_SPARSE_HOST_ROWS_H_
#define CONDACC_CORE_SPARSE_HOST_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/accumulator/round_sum.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/host_merge_pass.h"
#include "cc/core/sparse/row_format.h"

namespace condacc {

// The part of SparseSum that differs between host and device: the rows merged so far, and how to
// merge gradients into them. This one is for host memory; DeviceRows is for a device.
class HostRows {
 public:
  using Workspace = HostWorkspace;
  static constexpr int kNumEntryBits = 32;  // The entries of a gradient are numbered in 32 bits.
  // If true, SparseSum::Supply() checks the indices.
  static constexpr bool kIsHost = true;

  // Keeps a reference to `format`, which must be set before anything is merged.
  HostRows(const SumOptions& options, const RowFormat& format)
      : options_(options), format_(format) {}

  size_t num_rows() const { return merged_.size(); }

  // Merges the gradients. If there is not enough memory, returns false or throws std::bad_alloc,
  // and nothing has changed.
  bool Fold(const Addends& gradients, Workspace& workspace);

  // Notes the merged rows and the pending gradients, which must not move until the end of
  // RunSave(), and the total weight.
  void BeginSave(const Addends& pending, double total_weight);
  // See RoundSum. Gradients may be merged by other threads only afterwards.
  Status RunSave(Workspace& workspace, StateMemory& memory);
  // Makes the saved rows the merged ones. There must be no others. Returns InvalidArgument if their
  // indices do not ascend or are not below `index_bound`, or if a weight is negative, or higher
  // than that of all gradients.
  Status Restore(const SavedSum& saved, int64_t index_bound, Workspace& workspace);

  // See RoundSum. `pending` are the gradients that have not been merged. They must not move until
  // Finish(). `total_weight` is that of all gradients.
  Status PrepareFinish(const Addends& pending, double total_weight, Workspace& workspace);
  const Shape& value_shape() const { return output_->value.shape; }
  void AbandonFinish() { output_.reset(); }
  Value Finish(Workspace& workspace);

  // Frees all merged rows.
  void Clear() { merged_ = MergedRows(); }

 private:
  // A result to be written: either a merge of gradients or, if set, one gradient as it is.
  struct Output {
    std::optional<HostMergePass> merge;
    Addend* forwarded = nullptr;
    double divisor = 0;
    Value value;
  };

  // Returns whether the result is the pending gradient itself: it is the only one, its weight and
  // the total weight are 1, and its indices ascend without repeats.
  bool IsForwarded(const Addends& pending, double total_weight) const {
    return total_weight == 1 && merged_.size() == 0 && pending.size() == 1 &&
           pending[0]->weight == 1 && pending[0]->index_span.is_ascending;
  }

  // Merges everything into `value`. Frees what has been read as it goes.
  void Write(const Value& value, Workspace& workspace);

  const SumOptions& options_;
  const RowFormat& format_;
  MergedRows merged_;
  std::vector<HostSource> saved_sources_;  // Set from BeginSave() to RunSave().
  std::unique_ptr<Output> output_;         // Set from PrepareFinish() to Finish().
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_HOST_ROWS_H_
