#include "cc/core/sparse/device_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/accumulator/saved_state.h"
#include "cc/core/sparse/sparse_checks.h"

namespace condacc {

Status DeviceRows::AddSources(const Addends& gradients, DeviceMergeArgs* args) {
  args->sources.reserve(gradients.size() + 1);
  if (merged_.num_rows > 0) {
    args->sources.push_back({static_cast<const int64_t*>(merged_.rows.indices.data()),
                             merged_.rows.values.data(), 0, -1});
    args->merged_counts = static_cast<const int64_t*>(merged_.counts.data());
    args->num_merged = args->num_entries = merged_.num_rows;
  }
  int64_t max_index_bound = max_index_bound_;
  for (const Addend* gradient : gradients) {
    const Addend& g = *gradient;
    max_index_bound =
        g.index_bound < 0 || max_index_bound < 0 ? -1 : std::max(max_index_bound, g.index_bound);
    const auto size = static_cast<int64_t>(g.index_span.size);
    if (size == 0) continue;
    if (size > kMaxEntries - args->num_entries) {
      return Status(StatusCode::kResourceExhausted,
                    "Expected fewer than 2**31 rows to be merged at once on a device");
    }
    args->sources.push_back({g.index_span.data, g.values.data(), args->num_entries, g.index_bound});
    args->num_entries += size;
  }
  args->num_index_bits = NumIndexBits(max_index_bound);
  max_index_bound_ = max_index_bound;
  return Status();
}

Status DeviceRows::StartMerging(const Addends& gradients, Workspace& workspace, Merging* merging) {
  DeviceMergeArgs& args = merging->args;
  args.layout = format_.layout;
  Status status = AddSources(gradients, &args);
  if (!status.ok() || args.num_entries == 0) return status;
  size_t num_bytes = 0;
  status = workspace.SizeOfMemory(args, &num_bytes);
  if (!status.ok()) return status;
  const auto words = static_cast<int64_t>(num_bytes / sizeof(int64_t) + 1);
  status = workspace.Allocate(ElementType::kInt64, Shape::Of({words}), &merging->memory);
  if (!status.ok()) return status;
  args.memory = merging->memory.data();
  status = workspace.Sort(args, &merging->report);
  return status.ok() ? CheckReport(merging->report, gradients, workspace) : status;
}

Status DeviceRows::CheckReport(const DeviceMergeReport& report, const Addends& gradients,
                               Workspace& workspace) const {
  if (report.bad_entry < 0) return Status();
  int64_t end = merged_.num_rows;
  const auto has_bad_entry = [&](const Addend* gradient) {
    end += static_cast<int64_t>(gradient->index_span.size);
    return end > report.bad_entry;
  };
  const auto bad = std::find_if(gradients.begin(), gradients.end(), has_bad_entry);
  if (bad != gradients.end()) {
    const Addend& g = **bad;
    const size_t size = g.index_span.size;
    std::vector<int64_t> indices(size);
    Status status = workspace.CopyNow(g.index_span.data, size * sizeof(int64_t), indices.data());
    if (status.ok()) {
      status = CheckAcceptedIndices({indices.data(), size}, g.index_bound, g.contributor);
    }
    if (!status.ok()) return status;
  }
  return Status(StatusCode::kInternal, "The device has found a bad index that no gradient has");
}

Status DeviceRows::AllocateRows(int64_t num_rows, Workspace& workspace, Merged* rows) const {
  rows->num_rows = num_rows;
  const Status status =
      format_.Allocate(num_rows, format_.layout.sum_type(), workspace, &rows->rows);
  const Shape counts = Shape::Of({num_rows});
  return status.ok() ? workspace.Allocate(ElementType::kInt64, counts, &rows->counts) : status;
}

Status DeviceRows::WriteRows(const Merging& merging, Workspace& workspace, Merged* rows) const {
  const Status status = AllocateRows(merging.report.num_rows, workspace, rows);
  DeviceMergeOutput output;
  output.num_rows = rows->num_rows;
  output.indices = static_cast<int64_t*>(rows->rows.indices.data());
  output.values = rows->rows.values.data();
  output.values_are_sums = true;
  output.counts = static_cast<int64_t*>(rows->counts.data());
  return status.ok() && output.num_rows > 0 ? workspace.Write(merging.args, output) : status;
}

bool DeviceRows::Fold(const Addends& gradients, Workspace& workspace) {
  if (!failure_.ok()) return true;  // The round is lost.
  Merging merging;
  Merged merged;
  Status status = StartMerging(gradients, workspace, &merging);
  if (status.ok()) status = WriteRows(merging, workspace, &merged);
  if (status.code() == StatusCode::kResourceExhausted) return false;
  // After any other error, the gradients are lost, and the take of the round reports the error.
  if (status.ok()) {
    merged_ = std::move(merged);
  } else {
    Note(std::move(status));
  }
  return true;
}

Status DeviceRows::PrepareFinish(const Addends& pending, double total_weight,
                                 Workspace& workspace) {
  auto output = std::make_unique<Output>();
  output->divisor = RowDivisorOf(options_.reduction, total_weight);
  output->value.shape = format_.ShapeOf(0);  // That of a lost round.
  if (failure_.ok()) {
    Status status = StartMerging(pending, workspace, &output->merging);
    const int64_t num_rows = output->merging.report.num_rows;
    if (status.ok()) status = format_.Allocate(num_rows, options_.type, workspace, &output->value);
    if (!status.ok() && status.code() != StatusCode::kInvalidArgument) return status;
    if (!status.ok()) Note(std::move(status));  // An index is bad.
  }
  output_ = std::move(output);
  return Status();
}

Value DeviceRows::Finish(Workspace& workspace) {
  Value value = std::move(output_->value);
  DeviceMergeOutput output;
  output.num_rows = value.shape.dim(0);
  output.indices = static_cast<int64_t*>(value.indices.data());
  output.values = value.values.data();
  output.divisor = output_->divisor;
  if (output.num_rows > 0) Note(workspace.Write(output_->merging.args, output));
  value.failure = std::move(failure_);
  output_.reset();
  return value;
}

void DeviceRows::BeginSave(const Addends& pending, double total_weight) {
  saved_gradients_ = pending;
  saved_weight_ = total_weight;
}

Status DeviceRows::RunSave(Workspace& workspace, StateMemory& memory) {
  if (!failure_.ok()) return failure_;
  Merging merging;
  Status status = StartMerging(std::exchange(saved_gradients_, {}), workspace, &merging);
  Merged rows;
  if (status.ok()) status = WriteRows(merging, workspace, &rows);
  SumMemory sum;
  if (status.ok()) status = memory.Allocate(rows.rows.shape, &sum);
  const auto size = static_cast<size_t>(rows.num_rows);
  std::vector<int64_t> counts(status.ok() ? size : 0);
  const auto read = [&](const Buffer& from, size_t num_bytes, void* to) {
    if (status.ok()) status = workspace.CopyNow(from.data(), num_bytes, to);
  };
  read(rows.rows.indices, size * sizeof(int64_t), sum.indices);
  read(rows.rows.values, size * format_.layout.num_sum_bytes(), sum.values);
  read(rows.counts, size * sizeof(int64_t), counts.data());
  std::transform(counts.begin(), counts.end(), sum.weights, [&](int64_t count) {
    return std::min(static_cast<double>(count), std::floor(saved_weight_));
  });
  return status;
}

Status DeviceRows::Restore(const SavedSum& saved, int64_t index_bound, Workspace& workspace) {
  static constexpr double kMaxCount = 1ll << 53;
  const auto size = static_cast<size_t>(saved.shape.dim(0));
  if (saved.shape.dim(0) > kMaxEntries) {
    return Status(StatusCode::kResourceExhausted,
                  "Expected fewer than 2**31 rows to be restored on a device");
  }
  std::vector<int64_t> indices(size), counts(size);
  std::vector<double> weights(size);
  if (size > 0) {
    std::memcpy(indices.data(), saved.indices, size * sizeof(int64_t));
    std::memcpy(weights.data(), saved.weights, size * sizeof(double));
  }
  Status status =
      CheckSavedRows(indices.data(), weights.data(), size, index_bound, saved.total_weight);
  if (!status.ok()) return status;
  const auto is_count = [](double weight) {
    return weight >= 1 && weight <= kMaxCount && weight == std::floor(weight);
  };
  if (options_.reduction == Reduction::kMean &&
      !std::all_of(weights.begin(), weights.end(), is_count)) {
    return Status(StatusCode::kInvalidArgument,
                  "On a GPU, sparse gradients with weights have no MEAN: restore them on a CPU");
  }
  std::transform(weights.begin(), weights.end(), counts.begin(),
                 [](double weight) { return static_cast<int64_t>(std::min(weight, kMaxCount)); });
  Merged rows;
  status = AllocateRows(saved.shape.dim(0), workspace, &rows);
  const auto write = [&](const void* from, size_t num_bytes, const Buffer& to) {
    if (status.ok()) status = workspace.CopyNow(from, num_bytes, to.data());
  };
  write(indices.data(), size * sizeof(int64_t), rows.rows.indices);
  write(saved.values, size * format_.layout.num_sum_bytes(), rows.rows.values);
  write(counts.data(), size * sizeof(int64_t), rows.counts);
  if (!status.ok()) return status;
  merged_ = std::move(rows);
  max_index_bound_ = index_bound;
  return status;
}

}  // namespace condacc
