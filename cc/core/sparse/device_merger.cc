#include "cc/core/sparse/device_merger.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace condacc {

Status DeviceMerger::Prepare(const SparseOptions& options, Workspace& workspace,
                             SparseGradient* gradient) {
  const int64_t num_rows = gradient->shapes.indices.dim(0);
  if (num_rows > kMaxEntries) {
    return Status(StatusCode::kInvalidArgument,
                  "Expected fewer than 2**31 rows in a gradient on a device, got " +
                      std::to_string(num_rows));
  }
  KeptRows rows;
  rows.num_dense_rows = NumDenseRows(gradient->shapes, options.shape);
  Status status = KeepIndices(workspace, gradient, &rows.indices);
  if (status.ok()) status = KeepValues(workspace, options.type, gradient, &rows.values);
  if (!status.ok()) return status;
  rows.values_shape = gradient->shapes.values;
  rows.survey.list.rows = static_cast<const int64_t*>(rows.indices.data());
  rows.survey.list.size = static_cast<size_t>(num_rows);
  gradient->rows = std::move(rows);
  return Status();
}

Status DeviceMerger::AddSources(const std::list<KeptRows>& gradients, DeviceMergeArgs* args) {
  args->sources.reserve(gradients.size() + 1);
  if (merged_.num_rows > 0) {
    args->sources.push_back(
        {static_cast<const int64_t*>(merged_.rows.data()), merged_.sums.data(), 0, -1});
    args->merged_counts = static_cast<const int64_t*>(merged_.counts.data());
    args->num_merged = args->num_entries = merged_.num_rows;
  }
  int64_t max_dense_rows = max_dense_rows_;
  for (const KeptRows& g : gradients) {
    max_dense_rows = g.num_dense_rows < 0 || max_dense_rows < 0
                         ? -1
                         : std::max(max_dense_rows, g.num_dense_rows);
    const auto size = static_cast<int64_t>(g.survey.list.size);
    if (size == 0) continue;
    if (size > kMaxEntries - args->num_entries) {
      return Status(StatusCode::kResourceExhausted,
                    "Expected fewer than 2**31 rows to be merged at once on a device");
    }
    args->sources.push_back(
        {g.survey.list.rows, g.values.data(), args->num_entries, g.num_dense_rows});
    args->num_entries += size;
  }
  args->num_row_bits = NumRowBits(max_dense_rows);
  max_dense_rows_ = max_dense_rows;
  return Status();
}

Status DeviceMerger::StartMerging(const std::list<KeptRows>& gradients, Workspace& workspace,
                                  Merging* merging) {
  DeviceMergeArgs& args = merging->args;
  args.layout = layout_;
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
  if (status.ok()) NoteBadRow(*merging);
  return status;
}

void DeviceMerger::NoteBadRow(const Merging& merging) {
  const int64_t bad = merging.report.bad_entry;
  if (bad < 0) return;
  const auto& sources = merging.args.sources;
  const auto after =
      std::upper_bound(sources.begin(), sources.end(), bad,
                       [](int64_t entry, const DeviceSource& s) { return entry < s.first_entry; });
  const DeviceSource& source = *std::prev(after);
  const std::string slice = "index of slice " + std::to_string(bad - source.first_entry);
  const std::string row = std::to_string(merging.report.bad_row);
  std::string message = "Shape mismatch: " + slice;
  if (merging.report.bad_row < 0) {
    message += " is negative; index is " + row;
  } else {
    message += " exceeded limits of shape; index is " + row + " exceeded " +
               std::to_string(source.num_dense_rows);
  }
  Note(Status(StatusCode::kInvalidArgument,
              message + ". All gradients accumulated with this one are lost"));
}

Shape DeviceMerger::ShapeOf(int64_t num_rows) const {
  Shape shape = Shape::Of({num_rows});
  for (int i = 1; i < shape_.rank(); ++i) shape.AddDim(shape_.dim(i));
  return shape;
}

Status DeviceMerger::AllocateRows(int64_t num_rows, ElementType type, Workspace& workspace,
                                  Block* rows, Block* values) const {
  const Status status = workspace.Allocate(ElementType::kInt64, Shape::Of({num_rows}), rows);
  return status.ok() ? workspace.Allocate(type, ShapeOf(num_rows), values) : status;
}

bool DeviceMerger::Fold(const std::list<KeptRows>& gradients, Workspace& workspace) {
  try {
    Merging merging;
    Merged merged;
    Status status = StartMerging(gradients, workspace, &merging);
    merged.num_rows = merging.report.num_rows;
    if (status.ok()) {
      status =
          AllocateRows(merged.num_rows, layout_.sum_type(), workspace, &merged.rows, &merged.sums);
    }
    const Shape counts = Shape::Of({merged.num_rows});
    if (status.ok()) status = workspace.Allocate(ElementType::kInt64, counts, &merged.counts);
    DeviceMergeOutput output;
    output.num_rows = merged.num_rows;
    output.rows = static_cast<int64_t*>(merged.rows.data());
    output.values = merged.sums.data();
    output.values_are_sums = true;
    output.counts = static_cast<int64_t*>(merged.counts.data());
    if (status.ok() && merged.num_rows > 0) status = workspace.Write(merging.args, output);
    if (status.code() == StatusCode::kResourceExhausted) return false;
    // After any other error the gradients are lost, and the take of the round will report it.
    if (status.ok()) {
      merged_ = std::move(merged);
    } else {
      Note(std::move(status));
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

Status DeviceMerger::PrepareFinish(std::list<KeptRows>* pending, int64_t count,
                                   Workspace& workspace) {
  auto output = std::make_unique<Output>();
  Status status = StartMerging(*pending, workspace, &output->merging);
  if (!status.ok()) return status;
  SparseValue& value = output->value;
  const int64_t num_rows = output->merging.report.num_rows;
  status = AllocateRows(num_rows, options_.type, workspace, &value.indices, &value.values);
  if (!status.ok()) return status;
  value.shape = ShapeOf(num_rows);
  output->divisor = DivisorOf(options_.reduction, count);
  output_ = std::move(output);
  return Status();
}

SparseValue DeviceMerger::Finish(Workspace& workspace) {
  SparseValue value = std::move(output_->value);
  DeviceMergeOutput output;
  output.num_rows = output_->merging.report.num_rows;
  output.rows = static_cast<int64_t*>(value.indices.data());
  output.values = value.values.data();
  output.divisor = output_->divisor;
  if (output.num_rows > 0) Note(workspace.Write(output_->merging.args, output));
  value.failure = std::move(failure_);
  output_.reset();
  return value;
}

}  // namespace condacc
