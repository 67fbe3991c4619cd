// Merges sparse gradients in the memory of a device.
#ifndef CONDACC_CORE_SPARSE_DEVICE_ROWS_H_
#define CONDACC_CORE_SPARSE_DEVICE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <utility>

#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/core/sparse/sparse_checks.h"
#include "cc/core/sparse/sparse_gradient.h"

namespace condacc {

// The counterpart of HostRows for a device. See HostRows for the methods. There are two
// differences:
// - Indices are not checked before they are merged, so that no apply waits for the device.
// - Fold() and PrepareFinish() wait for the device, to learn how many rows there are and whether an
//   index is bad. If one is, they wait again, to find all gradients that have a bad index.
class DeviceRows {
 public:
  using Workspace = DeviceSparseWorkspace;

  explicit DeviceRows(const SparseOptions& options) : options_(options) {}

  static Status Prepare(const SparseOptions& options, Workspace& workspace,
                        SparseGradient* gradient);

  void SetShape(const Shape& values) {
    shape_ = values;
    layout_ = SliceLayout::Of(options_.type, values);
  }
  const Shape& shape() const { return shape_; }

  size_t num_rows() const { return static_cast<size_t>(merged_.num_rows); }
  size_t num_bytes() const { return num_rows() * layout_.num_sum_bytes(); }

  bool Fold(std::list<KeptGradient>* gradients, Workspace& workspace);

  Status PrepareFinish(std::list<KeptGradient>* pending, int64_t count, Workspace& workspace);
  void AbandonFinish() { output_.reset(); }
  SparseValue Finish(Workspace& workspace);

  void Clear() {
    merged_ = Merged();
    failure_ = Status();
    max_index_bound_ = 0;
  }

 private:
  static constexpr int64_t kMaxEntries = std::numeric_limits<int32_t>::max();

  struct Merged {
    int64_t num_rows = 0;
    Buffer indices;
    Buffer sums;
    Buffer counts;
  };
  struct Merging {
    DeviceMergeArgs args;
    Buffer memory;
    DeviceMergeReport report;
  };
  struct Output {
    Merging merging;
    int64_t divisor = 0;
    SparseValue value;
  };

  // Sorts the entries of the merged rows and of `gradients`. May also throw std::bad_alloc.
  Status StartMerging(const std::list<KeptGradient>& gradients, Workspace& workspace,
                      Merging* merging);
  // Adds the merged rows and `gradients` to the arguments.
  Status AddSources(const std::list<KeptGradient>& gradients, DeviceMergeArgs* args);
  Status AllocateRows(int64_t num_rows, ElementType type, Workspace& workspace, Buffer* indices,
                      Buffer* values) const;
  Shape ShapeOf(int64_t num_rows) const;
  // Reads the indices of the gradients from that of entry `bad_entry` on, and sets the failure of
  // those that have a bad one. May also throw std::bad_alloc.
  Status FindBadGradients(int64_t bad_entry, std::list<KeptGradient>* gradients,
                          Workspace& workspace) const;
  // Starts to merge the gradients that are not bad.
  Status MergeGood(std::list<KeptGradient>* gradients, Workspace& workspace, Merging* merging);
  // Records an error that spoils the round, if it is the first.
  void Note(Status status) {
    if (failure_.ok()) failure_ = std::move(status);
  }

  const SparseOptions& options_;
  Shape shape_;
  SliceLayout layout_;
  Merged merged_;
  int64_t max_index_bound_ = 0;  // Highest bound of the gradients so far; -1 if one has none.
  Status failure_;
  std::unique_ptr<Output> output_;  // Set from PrepareFinish() to Finish().
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_DEVICE_ROWS_H_
