// Merges sparse gradients in the memory of a device.
#ifndef CONDACC_CORE_SPARSE_DEVICE_ROWS_H_
#define CONDACC_CORE_SPARSE_DEVICE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/round_sum.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/core/sparse/row_format.h"

namespace condacc {

// The counterpart of HostRows for a device. See HostRows for the methods. There are three
// differences:
// - Indices are not checked before they are merged, so that no apply waits for the device.
// - Fold() and PrepareFinish() wait for the device, to learn how many rows there are and whether an
//   index is bad. If one is, they wait again, to read it, and the round is lost: Finish() returns
//   the error, and until then, nothing more is merged.
// - A row has the number of the gradients that contain it, and not their weight: only kMean divides
//   by the weight of a row, and it accepts no weights on a device. The saved weight of a row must
//   not exceed that of all gradients, so RunSave() writes the lower of the number and that weight,
//   rounded down.
class DeviceRows {
 public:
  using Workspace = DeviceWorkspace;
  static constexpr int kNumEntryBits = 31;  // All entries of a merge are numbered in 31 bits.
  static constexpr bool kIsHost = false;

  DeviceRows(const SumOptions& options, const RowFormat& format)
      : options_(options), format_(format) {}

  size_t num_rows() const { return static_cast<size_t>(merged_.num_rows); }

  bool Fold(const Addends& gradients, Workspace& workspace);

  void BeginSave(const Addends& pending, double total_weight);
  Status RunSave(Workspace& workspace, StateMemory& memory);
  Status Restore(const SavedSum& saved, int64_t index_bound, Workspace& workspace);

  Status PrepareFinish(const Addends& pending, double total_weight, Workspace& workspace);
  const Shape& value_shape() const { return output_->value.shape; }
  void AbandonFinish() { output_.reset(); }
  Value Finish(Workspace& workspace);

  void Clear() {
    merged_ = Merged();
    failure_ = Status();
    max_index_bound_ = 0;
  }

 private:
  static constexpr int64_t kMaxEntries = (int64_t{1} << kNumEntryBits) - 1;

  struct Merged {
    int64_t num_rows = 0;
    Value rows;  // Their values are of the sum type.
    Buffer counts;
  };
  struct Merging {
    DeviceMergeArgs args;
    Buffer memory;
    DeviceMergeReport report;
  };
  struct Output {
    Merging merging;
    double divisor = 0;
    Value value;
  };

  // These may also throw std::bad_alloc.
  // Sorts the entries of the merged rows and of `gradients`. Returns InvalidArgument if an index is
  // bad.
  Status StartMerging(const Addends& gradients, Workspace& workspace, Merging* merging);
  // Adds the merged rows and `gradients` to the arguments.
  Status AddSources(const Addends& gradients, DeviceMergeArgs* args);
  // Writes the rows of which StartMerging() has sorted the entries.
  Status WriteRows(const Merging& merging, Workspace& workspace, Merged* rows) const;
  // Allocates memory for this many rows.
  Status AllocateRows(int64_t num_rows, Workspace& workspace, Merged* rows) const;
  // Returns InvalidArgument if the device has found a bad index. Then reads the indices of the
  // gradient that has it, for the text.
  Status CheckReport(const DeviceMergeReport& report, const Addends& gradients,
                     Workspace& workspace) const;
  // Records an error that makes the round invalid, if it is the first.
  void Note(Status status) {
    if (failure_.ok()) failure_ = std::move(status).Permanent();
  }

  const SumOptions& options_;
  const RowFormat& format_;
  Merged merged_;
  int64_t max_index_bound_ = 0;  // Highest bound of the gradients so far, or -1 if one has none.
  Status failure_;
  Addends saved_gradients_;  // Set from BeginSave() to RunSave().
  double saved_weight_ = 0;
  std::unique_ptr<Output> output_;  // Set from PrepareFinish() to Finish().
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_DEVICE_ROWS_H_
