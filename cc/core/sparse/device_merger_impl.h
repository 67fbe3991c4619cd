// Definitions of DeviceMerger's longer methods; included by device_merger.h only.
#ifndef CONDACC_CORE_SPARSE_DEVICE_MERGER_IMPL_H_
#define CONDACC_CORE_SPARSE_DEVICE_MERGER_IMPL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "cc/core/sparse/device_merger.h"

namespace condacc {

template <class Block>
Status DeviceMerger<Block>::Prepare(const Options& options, Workspace& workspace,
                                    Gradient* gradient) {
  const int64_t num_rows = gradient->shapes.indices.dim(0);
  if (num_rows > kMaxEntries) {
    return Status(StatusCode::kInvalidArgument,
                  "Expected fewer than 2**31 rows in a gradient on a device, got " +
                      std::to_string(num_rows));
  }
  const size_t size = static_cast<size_t>(num_rows);
  if (gradient->indices_are_int32 || !gradient->owns_indices) {
    Block copy;
    Status status = workspace.Allocate(ElementType::kInt64, gradient->shapes.indices, &copy);
    if (!status.ok()) return status;
    const void* const from = gradient->indices.data();
    auto* const to = static_cast<int64_t*>(copy.data());
    status = gradient->indices_are_int32
                 ? workspace.Widen(static_cast<const int32_t*>(from), size, to)
                 : workspace.Copy(from, size * sizeof(int64_t), to);
    if (!status.ok()) return status;
    gradient->indices = std::move(copy);
    gradient->indices_are_int32 = false;
    gradient->owns_indices = true;
  }
  if (!gradient->owns_values) {
    Block copy;
    Status status = workspace.Allocate(options.type, gradient->shapes.values, &copy);
    if (!status.ok()) return status;
    const auto num_elements = static_cast<size_t>(gradient->shapes.values.num_elements());
    status =
        workspace.Copy(gradient->values.data(), num_elements * SizeOf(options.type), copy.data());
    if (!status.ok()) return status;
    gradient->values = std::move(copy);
    gradient->owns_values = true;
  }
  gradient->survey.list.rows = static_cast<const int64_t*>(gradient->indices.data());
  gradient->survey.list.size = size;
  gradient->owned = true;
  return Status();
}

template <class Block>
Status DeviceMerger<Block>::AddSources(const std::list<Gradient>& gradients,
                                       DeviceMergeArgs* args) {
  args->sources.reserve(gradients.size() + 1);
  if (merged_.num_rows > 0) {
    args->sources.push_back(
        {static_cast<const int64_t*>(merged_.rows.data()), merged_.sums.data(), 0, -1});
    args->merged_counts = static_cast<const int64_t*>(merged_.counts.data());
    args->num_merged = args->num_entries = merged_.num_rows;
  }
  int64_t max_dense_rows = max_dense_rows_;
  for (const Gradient& g : gradients) {
    const int64_t num_dense_rows = NumDenseRows(g.shapes, options_.shape);
    max_dense_rows =
        num_dense_rows < 0 || max_dense_rows < 0 ? -1 : std::max(max_dense_rows, num_dense_rows);
    const auto size = static_cast<int64_t>(g.survey.list.size);
    if (size == 0) continue;
    if (size > kMaxEntries - args->num_entries) {
      return Status(StatusCode::kResourceExhausted,
                    "Expected fewer than 2**31 rows to be merged at once on a device");
    }
    args->sources.push_back(
        {g.survey.list.rows, g.values.data(), args->num_entries, num_dense_rows});
    args->num_entries += size;
  }
  args->num_row_bits = NumRowBits(max_dense_rows);
  max_dense_rows_ = max_dense_rows;
  return Status();
}

// Beside its status it may throw std::bad_alloc.
template <class Block>
Status DeviceMerger<Block>::StartMerging(const std::list<Gradient>& gradients, Workspace& workspace,
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

template <class Block>
void DeviceMerger<Block>::NoteBadRow(const Merging& merging) {
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

template <class Block>
Shape DeviceMerger<Block>::ShapeOf(int64_t num_rows) const {
  Shape shape = Shape::Of({num_rows});
  for (int i = 1; i < shape_.rank(); ++i) shape.AddDim(shape_.dim(i));
  return shape;
}

template <class Block>
Status DeviceMerger<Block>::AllocateRows(int64_t num_rows, ElementType type, Workspace& workspace,
                                         Block* rows, Block* values) const {
  const Status status = workspace.Allocate(ElementType::kInt64, Shape::Of({num_rows}), rows);
  return status.ok() ? workspace.Allocate(type, ShapeOf(num_rows), values) : status;
}

template <class Block>
bool DeviceMerger<Block>::Fold(const std::list<Gradient>& gradients, Workspace& workspace) {
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
    // What a device has refused is lost.
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

template <class Block>
Status DeviceMerger<Block>::PrepareFinish(const std::list<Gradient>& pending, int64_t /*count*/,
                                          Workspace& workspace) {
  auto output = std::make_unique<Output>();
  Status status = StartMerging(pending, workspace, &output->merging);
  if (!status.ok()) return status;
  Value& value = output->value;
  const int64_t num_rows = output->merging.report.num_rows;
  status = AllocateRows(num_rows, options_.type, workspace, &value.indices, &value.values);
  if (!status.ok()) return status;
  value.shape = ShapeOf(num_rows);
  output_ = std::move(output);
  return Status();
}

template <class Block>
SparseValue<Block> DeviceMerger<Block>::Finish(std::list<Gradient>* /*pending*/, int64_t count,
                                               Workspace& workspace) {
  Value value = std::move(output_->value);
  DeviceMergeOutput output;
  output.num_rows = output_->merging.report.num_rows;
  output.rows = static_cast<int64_t*>(value.indices.data());
  output.values = value.values.data();
  output.divisor = DivisorOf(options_.reduction, count);
  if (output.num_rows > 0) Note(workspace.Write(output_->merging.args, output));
  value.failure = std::move(failure_);
  output_.reset();
  return value;
}

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_DEVICE_MERGER_IMPL_H_
