#include "cc/core/sparse/host_rows.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace condacc {
namespace {

// A result is written in portions, between which what was read for it is freed: one portion for
// each so many bytes, but not more than this many.
constexpr size_t kMinPortionBytes = size_t{4} << 20;
constexpr size_t kMaxPortions = 10;

std::vector<HostSource> SourcesOf(const std::list<Gradient>& gradients) {
  std::vector<HostSource> sources;
  sources.reserve(gradients.size());
  for (const Gradient& g : gradients) sources.push_back({g.index_span, g.values.data(), g.weight});
  return sources;
}

}  // namespace

bool HostRows::Fold(std::list<Gradient>* gradients, Workspace& workspace) {
  try {
    HostMergePass(format_.layout, SourcesOf(*gradients), &merged_, workspace).MergeInto(workspace);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

Status HostRows::PrepareFinish(std::list<Gradient>* pending, double total_weight,
                               Workspace& workspace) {
  auto output = std::make_unique<Output>();
  if (IsForwarded(*pending, total_weight)) {
    output->forwarded = &pending->front();
    output->value.shape = output->forwarded->shape;
  } else {
    output->merge.emplace(format_.layout, SourcesOf(*pending), &merged_, workspace);
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
