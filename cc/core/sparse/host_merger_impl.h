// Definitions of HostMerger's longer methods; included by host_merger.h only.
#ifndef CONDACC_CORE_SPARSE_HOST_MERGER_IMPL_H_
#define CONDACC_CORE_SPARSE_HOST_MERGER_IMPL_H_

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/dense/dense_math.h"
#include "cc/core/sparse/host_merger.h"

namespace condacc {

template <class Block>
Status HostMerger<Block>::Prepare(const Options& options, Workspace& workspace,
                                  Gradient* gradient) {
  const size_t num_rows = static_cast<size_t>(gradient->shapes.indices.dim(0));
  if (num_rows > std::numeric_limits<uint32_t>::max()) {
    return Status(StatusCode::kInvalidArgument,
                  "Expected fewer than 2**32 rows in a gradient, got " + std::to_string(num_rows));
  }
  if (gradient->indices_are_int32 || !gradient->owns_indices) {
    Block copy;
    const Status status = workspace.Allocate(ElementType::kInt64, gradient->shapes.indices, &copy);
    if (!status.ok()) return status;
    int64_t* const to = static_cast<int64_t*>(copy.data());
    if (gradient->indices_are_int32) {
      std::copy_n(static_cast<const int32_t*>(gradient->indices.data()), num_rows, to);
    } else {
      std::copy_n(static_cast<const int64_t*>(gradient->indices.data()), num_rows, to);
    }
    gradient->indices = std::move(copy);
    gradient->indices_are_int32 = false;
    gradient->owns_indices = true;
  }
  // Good rows before the large copy.
  const Status rows = SurveyRows(static_cast<const int64_t*>(gradient->indices.data()), num_rows,
                                 NumDenseRows(gradient->shapes, options.shape), &gradient->survey);
  if (!rows.ok()) return rows;
  if (!gradient->owns_values) {
    Block copy = options.spares->Take(gradient->shapes.values);
    if (!copy) {
      const Status status = workspace.Allocate(options.type, gradient->shapes.values, &copy);
      if (!status.ok()) return status;
    }
    DenseSumArgs args;
    args.type = options.type;
    args.num_elements = static_cast<size_t>(gradient->shapes.values.num_elements());
    args.first = gradient->values.data();
    args.out = copy.data();
    SumDense(args, workspace.parallel_for());
    gradient->values = std::move(copy);
    gradient->owns_values = true;
    gradient->is_a_copy = true;
  }
  gradient->owned = true;
  return Status();
}

// Beside its status it may throw std::bad_alloc.
template <class Block>
Status HostMerger<Block>::StartMerging(const std::list<Gradient>& gradients, Workspace& workspace,
                                       Merging* merging) const {
  size_t num_entries = 0;
  merging->sources.reserve(gradients.size());
  for (const Gradient& g : gradients) {
    merging->sources.push_back({g.survey.list, g.values.data()});
    num_entries += g.survey.list.size;
  }
  static_assert(sizeof(RowEntry) == 2 * sizeof(int64_t));
  const Shape shape = Shape::Of({static_cast<int64_t>(num_entries), 2});
  const Status status = workspace.AllocateInner(ElementType::kInt64, shape, &merging->entries);
  if (!status.ok()) return status;
  merging->merge.emplace(layout_, merged_, merging->sources,
                         static_cast<RowEntry*>(merging->entries.data()), workspace.parallel_for());
  return Status();
}

template <class Block>
bool HostMerger<Block>::Fold(const std::list<Gradient>& gradients, Workspace& workspace) {
  try {
    Merging merging;
    if (!StartMerging(gradients, workspace, &merging).ok()) return false;
    SparseMerge& merge = *merging.merge;
    if (merge.num_new_rows() == 0) {
      merge.MergeInto(&merged_, /*new_sums=*/nullptr, workspace.parallel_for());
      return true;
    }
    chunks_.reserve(chunks_.size() + 1);
    std::vector<RowMark> marks = merge.MarkNewRows(SumChunk<Block>::kMaxMarks);
    const Shape shape = Shape::Of(
        {static_cast<int64_t>(merge.num_new_rows()), static_cast<int64_t>(layout_.width)});
    Block sums;
    if (!workspace.AllocateInner(layout_.sum_type(), shape, &sums).ok()) return false;
    merge.MergeInto(&merged_, sums.data(), workspace.parallel_for());
    chunks_.emplace_back(std::move(sums), std::move(marks), layout_.num_sum_bytes());
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

template <class Block>
Status HostMerger<Block>::PrepareFinish(const std::list<Gradient>& pending, int64_t count,
                                        Workspace& workspace) {
  auto output = std::make_unique<Output>();
  Shape shape = shape_;
  if (!IsForwarded(pending, count)) {
    Status status = StartMerging(pending, workspace, &output->merging);
    if (!status.ok()) return status;
    shape = Shape::Of({static_cast<int64_t>(output->merging.merge->num_rows())});
    status = workspace.Allocate(ElementType::kInt64, shape, &output->value.indices);
    for (int i = 1; i < shape_.rank(); ++i) shape.AddDim(shape_.dim(i));
    if (status.ok()) status = workspace.Allocate(options_.type, shape, &output->value.values);
    if (!status.ok()) return status;
  }
  output->value.shape = std::move(shape);
  output_ = std::move(output);
  return Status();
}

template <class Block>
SparseValue<Block> HostMerger<Block>::Finish(std::list<Gradient>* pending, int64_t count,
                                             Workspace& workspace) {
  Value value = std::move(output_->value);
  if (output_->merging.merge) {
    Write(count, value, workspace);
  } else {
    value.indices = std::move(pending->front().indices);
    value.values = std::move(pending->front().values);
  }
  output_.reset();
  return value;
}

template <class Block>
void HostMerger<Block>::Write(int64_t count, const Value& value, Workspace& workspace) {
  Merging& merging = output_->merging;
  SparseMerge::WrittenBelow discard;
  if (merging.merge->num_entries() * sizeof(RowEntry) + num_bytes() >= kMinDiscarded) {
    discard = [this](int64_t row, size_t num_entries) {
      output_->merging.entries.Discard(num_entries * sizeof(RowEntry));
      for (SumChunk<Block>& chunk : chunks_) chunk.DiscardBelow(row);
    };
  }
  merging.merge->WriteTo(static_cast<int64_t*>(value.indices.data()), value.values.data(),
                         DivisorOf(options_.reduction, count), workspace.parallel_for(), discard);
}

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_HOST_MERGER_IMPL_H_
