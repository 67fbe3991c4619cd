#include "cc/core/sparse/host_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/core/accumulator/saved_state.h"
#include "cc/core/sparse/sparse_checks.h"

namespace condacc {
namespace {

// A result is written in portions, between which what was read for it is freed: one portion for
// each so many bytes, but not more than this many.
constexpr size_t kMinPortionBytes = size_t{4} << 20;
constexpr size_t kMaxPortions = 10;

constexpr size_t kRestoredBucket = 1024;  // Rows.

std::vector<HostSource> SourcesOf(const Addends& gradients) {
  std::vector<HostSource> sources;
  sources.reserve(gradients.size());
  for (const Addend* g : gradients) sources.push_back({g->index_span, g->values.data(), g->weight});
  return sources;
}

}  // namespace

bool HostRows::Fold(const Addends& gradients, Workspace& workspace) {
  HostMergePass(format_.layout, SourcesOf(gradients), &merged_, workspace).MergeInto(workspace);
  return true;
}

Status HostRows::PrepareFinish(const Addends& pending, double total_weight, Workspace& workspace) {
  auto output = std::make_unique<Output>();
  if (IsForwarded(pending, total_weight)) {
    output->forwarded = pending[0];
    output->value.shape = format_.ShapeOf(static_cast<int64_t>(pending[0]->index_span.size));
  } else {
    output->merge.emplace(format_.layout, SourcesOf(pending), &merged_, workspace);
    const auto num_rows = static_cast<int64_t>(output->merge->num_rows());
    const Status status = format_.Allocate(num_rows, options_.type, workspace, &output->value);
    if (!status.ok()) return status;
  }
  output->divisor = RowDivisorOf(options_.reduction, total_weight);
  output_ = std::move(output);
  return Status();
}

Value HostRows::Finish(Workspace& workspace) {
  Value value = std::move(output_->value);
  if (output_->forwarded != nullptr) {
    value.indices = std::move(output_->forwarded->indices);
    value.values = std::move(output_->forwarded->values);
  } else {
    Write(value, workspace);
  }
  output_.reset();
  return value;
}

void HostRows::BeginSave(const Addends& pending, double /*total_weight*/) {
  saved_sources_ = SourcesOf(pending);
}

Status HostRows::RunSave(Workspace& workspace, StateMemory& memory) {
  HostMergePass merge(format_.layout, std::move(saved_sources_), &merged_, workspace);
  SumMemory sum;
  const Status status =
      memory.Allocate(format_.ShapeOf(static_cast<int64_t>(merge.num_rows())), &sum);
  if (!status.ok()) return status;
  merge.CopyTo(sum, workspace.parallel_for());
  return status;
}

Status HostRows::Restore(const SavedSum& saved, int64_t index_bound, Workspace& workspace) {
  const auto num_rows = static_cast<size_t>(saved.shape.dim(0));
  MergedRows rows(num_rows, workspace);
  Status status = workspace.Copy(saved.indices, num_rows * sizeof(int64_t), rows.indices);
  if (status.ok()) {
    status = workspace.Copy(saved.weights, num_rows * sizeof(double), rows.weights);
  }
  if (status.ok()) {
    status = CheckSavedRows(rows.indices, rows.weights, num_rows, index_bound, saved.total_weight);
  }
  if (!status.ok()) return status;
  const size_t row_bytes = format_.layout.num_sum_bytes();
  BucketMemory sums(rows.indices, num_rows, kRestoredBucket, row_bytes, workspace);
  char* const memory = sums.Of(0);
  status = workspace.Copy(saved.values, num_rows * row_bytes, memory);
  if (!status.ok()) return status;
  for (size_t i = 0; i < num_rows; ++i) rows.sums[i] = memory + i * row_bytes;
  rows.sum_memory.push_back(std::move(sums));
  merged_ = std::move(rows);
  return status;
}

void HostRows::Write(const Value& value, Workspace& workspace) {
  HostMergePass& merge = *output_->merge;
  const size_t num_freeable =
      merge.num_entries() * sizeof(SliceEntry) + merged_.size() * format_.layout.num_sum_bytes();
  const size_t num_portions = std::clamp<size_t>(num_freeable / kMinPortionBytes, 1, kMaxPortions);
  // The pages of entries and sums that were freed become pages of the rest of the result.
  const auto refill = [this, &value](size_t num_rows) {
    value.indices.RefillAfter(num_rows * sizeof(int64_t));
    value.values.RefillAfter(num_rows * format_.layout.num_bytes());
  };
  merge.WriteTo(static_cast<int64_t*>(value.indices.data()), value.values.data(), output_->divisor,
                workspace.parallel_for(), num_portions, refill);
}

}  // namespace condacc
