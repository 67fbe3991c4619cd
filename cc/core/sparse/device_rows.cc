#include "cc/core/sparse/device_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/sparse/sparse_checks.h"

namespace condacc {

Status DeviceRows::AddSources(const std::list<Gradient>& gradients, DeviceMergeArgs* args) {
  args->sources.reserve(gradients.size() + 1);
  if (merged_.num_rows > 0) {
    args->sources.push_back({static_cast<const int64_t*>(merged_.rows.indices.data()),
                             merged_.rows.values.data(), 0, -1});
    args->merged_counts = static_cast<const int64_t*>(merged_.counts.data());
    args->num_merged = args->num_entries = merged_.num_rows;
  }
  int64_t max_index_bound = max_index_bound_;
  for (const Gradient& g : gradients) {
    max_index_bound =
        g.index_bound < 0 || max_index_bound < 0 ? -1 : std::max(max_index_bound, g.index_bound);
    const auto size = static_cast<int64_t>(g.index_span.size);
    if (size == 0 || !g.failure.ok()) continue;
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

Status DeviceRows::StartMerging(const std::list<Gradient>& gradients, Workspace& workspace,
                                Merging* merging) {
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
  return workspace.Sort(args, &merging->report);
}

Status DeviceRows::FindBadGradients(int64_t bad_entry, std::list<Gradient>* gradients,
                                    Workspace& workspace) const {
  bool has_found = false;
  int64_t end = merged_.num_rows;
  std::vector<int64_t> indices;
  for (Gradient& g : *gradients) {
    if (!g.failure.ok()) continue;
    const size_t size = g.index_span.size;
    end += static_cast<int64_t>(size);
    if (end <= bad_entry) continue;
    indices.resize(size);
    Status status = workspace.ReadIndices(g.index_span.data, size, indices.data());
    if (!status.ok()) return status;
    IndexSpan span;
    status = CheckIndices(indices.data(), size, g.index_bound, &span);
    if (status.ok()) continue;
    g.failure = std::move(status);
    g.indices = Buffer();
    g.values = Buffer();
    has_found = true;
  }
  if (has_found) return Status();
  return Status(StatusCode::kInternal, "The device has found a bad index that no gradient has");
}

Status DeviceRows::MergeGood(std::list<Gradient>* gradients, Workspace& workspace,
                             Merging* merging) {
  Status status = StartMerging(*gradients, workspace, merging);
  const int64_t bad_entry = merging->report.bad_entry;
  if (!status.ok() || bad_entry < 0) return status;
  *merging = Merging();
  status = FindBadGradients(bad_entry, gradients, workspace);
  return status.ok() ? StartMerging(*gradients, workspace, merging) : status;
}

bool DeviceRows::Fold(std::list<Gradient>* gradients, Workspace& workspace) {
  try {
    Merging merging;
    Merged merged;
    Status status = MergeGood(gradients, workspace, &merging);
    merged.num_rows = merging.report.num_rows;
    if (status.ok()) {
      status =
          format_.Allocate(merged.num_rows, format_.layout.sum_type(), workspace, &merged.rows);
    }
    const Shape counts = Shape::Of({merged.num_rows});
    if (status.ok()) status = workspace.Allocate(ElementType::kInt64, counts, &merged.counts);
    DeviceMergeOutput output;
    output.num_rows = merged.num_rows;
    output.indices = static_cast<int64_t*>(merged.rows.indices.data());
    output.values = merged.rows.values.data();
    output.values_are_sums = true;
    output.counts = static_cast<int64_t*>(merged.counts.data());
    if (status.ok() && merged.num_rows > 0) status = workspace.Write(merging.args, output);
    if (status.code() == StatusCode::kResourceExhausted) return false;
    // After any other error, the gradients are lost, and the take of the round reports the error.
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

Status DeviceRows::PrepareFinish(std::list<Gradient>* pending, double total_weight,
                                 Workspace& workspace) {
  auto output = std::make_unique<Output>();
  Status status = StartMerging(*pending, workspace, &output->merging);
  const int64_t bad_entry = output->merging.report.bad_entry;
  if (status.ok() && bad_entry >= 0) return FindBadGradients(bad_entry, pending, workspace);
  if (!status.ok()) return status;
  const int64_t num_rows = output->merging.report.num_rows;
  status = format_.Allocate(num_rows, options_.type, workspace, &output->value);
  if (!status.ok()) return status;
  output->divisor = RowDivisorOf(options_.reduction, total_weight);
  output_ = std::move(output);
  return Status();
}

Value DeviceRows::Finish(Workspace& workspace) {
  Value value = std::move(output_->value);
  DeviceMergeOutput output;
  output.num_rows = output_->merging.report.num_rows;
  output.indices = static_cast<int64_t*>(value.indices.data());
  output.values = value.values.data();
  output.divisor = output_->divisor;
  if (output.num_rows > 0) Note(workspace.Write(output_->merging.args, output));
  value.failure = std::move(failure_);
  output_.reset();
  return value;
}

}  // namespace condacc
