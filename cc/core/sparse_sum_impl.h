// Definitions of SparseSum's longer methods; included by sparse_sum.h only.
#ifndef CONDACC_CORE_SPARSE_SUM_IMPL_H_
#define CONDACC_CORE_SPARSE_SUM_IMPL_H_

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/dense_math.h"
#include "cc/core/sparse_sum.h"

namespace condacc {

template <class Block>
Status SparseSum<Block>::Prepare(const Options& options, bool /*is_first*/, Workspace& workspace,
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

template <class Block>
bool SparseSum<Block>::RunFold(Workspace& workspace) {
  try {
    const std::vector<RowSource> sources = SourcesOf(folding_);
    const SparseMerge merge(layout_, merged_, sources, workspace.parallel_for());
    chunks_.reserve(chunks_.size() + 1);
    const Shape shape = Shape::Of(
        {static_cast<int64_t>(merge.num_new_rows()), static_cast<int64_t>(layout_.width)});
    Block chunk;
    if (!workspace.Allocate(layout_.sum_type(), shape, &chunk).ok()) return false;
    merge.Into(&merged_, chunk.data(), workspace.parallel_for());
    chunks_.push_back(std::move(chunk));
  } catch (const std::bad_alloc&) {
    return false;
  }
  Release(&folding_);
  return true;
}

template <class Block>
Status SparseSum<Block>::PrepareFinish(int64_t count, Workspace& workspace) {
  if (IsForwarded(count)) return Status();
  try {
    const std::vector<RowSource> sources = SourcesOf(pending_);
    const SparseMerge merge(layout_, merged_, sources, workspace.parallel_for());
    const int64_t num_rows = static_cast<int64_t>(merge.num_rows());
    Shape shape = Shape::Of({num_rows});
    Status status = workspace.Allocate(ElementType::kInt64, shape, &value_.indices);
    for (int i = 1; i < shape_.rank(); ++i) shape.AddDim(shape_.dim(i));
    if (status.ok()) status = workspace.Allocate(options_.type, shape, &value_.values);
    value_.shape = shape;
    if (!status.ok()) {
      AbandonFinish();
      return status;
    }
    const SparseReduction reduction = options_.reduction;
    const int64_t divisor = reduction == SparseReduction::kMean  ? 0
                            : reduction == SparseReduction::kSum ? 1
                                                                 : count;
    merge.Out(static_cast<int64_t*>(value_.indices.data()), value_.values.data(), divisor,
              workspace.parallel_for());
  } catch (const std::bad_alloc&) {
    AbandonFinish();
    return Status(StatusCode::kResourceExhausted, "Out of memory");
  }
  return Status();
}

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SUM_IMPL_H_
