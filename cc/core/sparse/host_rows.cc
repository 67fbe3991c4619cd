#include "cc/core/sparse/host_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace condacc {

Status HostRows::StartMerging(const std::list<Gradient>& gradients, Workspace& workspace,
                              Merging* merging) const {
  size_t num_entries = 0;
  merging->sources.reserve(gradients.size());
  for (const Gradient& g : gradients) {
    merging->sources.push_back({g.index_span, g.values.data(), g.weight});
    num_entries += g.index_span.size;
  }
  static_assert(sizeof(SliceEntry) == 2 * sizeof(int64_t));
  const Shape shape = Shape::Of({static_cast<int64_t>(num_entries), 2});
  const Status status = workspace.AllocateInner(ElementType::kInt64, shape, &merging->entries);
  if (!status.ok()) return status;
  merging->merge.emplace(format_.layout, merged_, merging->sources,
                         static_cast<SliceEntry*>(merging->entries.data()),
                         workspace.parallel_for());
  return Status();
}

bool HostRows::Fold(std::list<Gradient>* gradients, Workspace& workspace) {
  try {
    Merging merging;
    if (!StartMerging(*gradients, workspace, &merging).ok()) return false;
    HostMergePass& merge = *merging.merge;
    const size_t num_rows = merge.num_rows();
    const Shape words = Shape::Of({static_cast<int64_t>(num_rows), MergedRows::kWordsPerRow});
    Buffer lists;
    if (!workspace.AllocateInner(ElementType::kInt64, words, &lists).ok()) return false;
    MergedRows all_rows(std::move(lists), num_rows);
    if (merge.num_new_rows() == 0) {
      merge.MergeInto(&merged_, std::move(all_rows), /*new_sums=*/nullptr,
                      workspace.parallel_for());
      return true;
    }
    chunks_.reserve(chunks_.size() + 1);
    std::vector<SumChunk::Mark> marks = merge.MarkNewRows(SumChunk::kMaxMarks);
    const Shape shape = Shape::Of(
        {static_cast<int64_t>(merge.num_new_rows()), static_cast<int64_t>(format_.layout.width)});
    Buffer sums;
    if (!workspace.AllocateInner(format_.layout.sum_type(), shape, &sums).ok()) return false;
    merge.MergeInto(&merged_, std::move(all_rows), sums.data(), workspace.parallel_for());
    chunks_.emplace_back(std::move(sums), std::move(marks), format_.layout.num_sum_bytes());
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
    Status status = StartMerging(*pending, workspace, &output->merging);
    if (!status.ok()) return status;
    const auto num_rows = static_cast<int64_t>(output->merging.merge->num_rows());
    status = format_.Allocate(num_rows, options_.type, workspace, &output->value);
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
  Merging& merging = output_->merging;
  const size_t num_freeable = merging.merge->num_entries() * sizeof(SliceEntry) +
                              merged_.size() * format_.layout.num_sum_bytes();
  const size_t num_parts = std::clamp<size_t>(num_freeable / kMinDiscarded, 1, kMaxParts);
  // The pages of entries and sums that have been read become pages of the rest of the result.
  const auto exchange = [this, &value](const HostMergePass::Position& written) {
    output_->merging.entries.DiscardFirst(written.num_entries * sizeof(SliceEntry));
    for (SumChunk& chunk : chunks_) chunk.DiscardBelow(written.index);
    value.indices.RefillAfter(written.num_rows * sizeof(int64_t));
    value.values.RefillAfter(written.num_rows * format_.layout.num_bytes());
  };
  merging.merge->WriteTo(static_cast<int64_t*>(value.indices.data()), value.values.data(),
                         output_->divisor, workspace.parallel_for(), num_parts, exchange);
}

}  // namespace condacc
