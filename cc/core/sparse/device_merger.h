// Merges sparse gradients in memory that only a device reads.
#ifndef CONDACC_CORE_SPARSE_DEVICE_MERGER_H_
#define CONDACC_CORE_SPARSE_DEVICE_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <utility>

#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/core/sparse/sparse_gradient.h"
#include "cc/core/sparse/sparse_parts.h"

namespace condacc {

// The device's counterpart of HostMerger; see there. What differs:
// - Row numbers are not looked at before they are merged, so that no apply waits for the device. If
//   one is found to be bad then, the round is lost, and the take that gets it fails.
// - A fold and PrepareFinish() wait for the device once, to learn how many rows there are.
class DeviceMerger {
 public:
  using Workspace = DeviceSparseWorkspace;

  explicit DeviceMerger(const SparseOptions& options) : options_(options) {}

  static Status Prepare(const SparseOptions& options, Workspace& workspace,
                        SparseGradient* gradient);

  void SetShape(const Shape& values) {
    shape_ = values;
    layout_ = RowLayout::Of(options_.type, values);
  }
  const Shape& shape() const { return shape_; }

  size_t num_rows() const { return static_cast<size_t>(merged_.num_rows); }
  size_t num_bytes() const { return num_rows() * layout_.num_sum_bytes(); }

  bool Fold(const std::list<KeptRows>& gradients, Workspace& workspace);

  Status PrepareFinish(std::list<KeptRows>* pending, int64_t count, Workspace& workspace);
  void AbandonFinish() { output_.reset(); }
  SparseValue Finish(Workspace& workspace);

  void Clear() {
    merged_ = Merged();
    failure_ = Status();
    max_dense_rows_ = 0;
  }

 private:
  static constexpr int64_t kMaxEntries = std::numeric_limits<int32_t>::max();

  struct Merged {
    int64_t num_rows = 0;
    Block rows;
    Block sums;
    Block counts;
  };
  struct Merging {
    DeviceMergeArgs args;
    Block memory;
    DeviceMergeReport report;
  };
  struct Output {
    Merging merging;
    int64_t divisor = 0;
    SparseValue value;
  };

  // Sorts the entries of what is merged and of `gradients`.
  Status StartMerging(const std::list<KeptRows>& gradients, Workspace& workspace, Merging* merging);
  Status AddSources(const std::list<KeptRows>& gradients, DeviceMergeArgs* args);
  Status AllocateRows(int64_t num_rows, ElementType type, Workspace& workspace, Block* rows,
                      Block* values) const;
  Shape ShapeOf(int64_t num_rows) const;
  // Remembers what spoils the round, if it is the first.
  void NoteBadRow(const Merging& merging);
  void Note(Status status) {
    if (failure_.ok()) failure_ = std::move(status);
  }

  const SparseOptions& options_;
  Shape shape_;
  RowLayout layout_;
  Merged merged_;
  int64_t max_dense_rows_ = 0;  // of all gradients so far; -1 if one does not say
  Status failure_;
  std::unique_ptr<Output> output_;  // from PrepareFinish() on
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_DEVICE_MERGER_H_
