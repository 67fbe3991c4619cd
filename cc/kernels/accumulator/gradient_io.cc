#include "cc/kernels/accumulator/gradient_io.h"

#include <algorithm>
#include <utility>

#include "cc/kernels/base/out_of_memory.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace condacc {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

// Outputs the shape of the dense tensor, with -1 as the number of rows if the constructor's shape
// does not give it.
void SetDenseShape(OpKernelContext* ctx, int index, const AccumulatorSpec& spec,
                   const Tensor& reserved, const TensorShape& values) {
  const auto& known = spec.shape;
  Tensor shape = reserved.Slice(0, values.dims());
  auto dims = shape.vec<int64_t>();
  dims(0) = known.dims() >= 1 ? known.dim_size(0) : -1;
  for (int i = 1; i < values.dims(); ++i) dims(i) = values.dim_size(i);
  ctx->set_output(index, shape);
}

Gradient ReadGradient(OpKernelContext* ctx, int first, bool is_sparse) {
  constexpr int64_t kMoreThanAnyRank = 255;
  Gradient gradient;
  const int values = is_sparse ? first + 1 : first;
  gradient.shape = ShapeOf(ctx->input(values).shape());
  gradient.owned = OwnsInput(ctx, values);
  gradient.values = BufferOf(ctx->input(values));
  if (!is_sparse) return gradient;
  gradient.indices_shape = ShapeOf(ctx->input(first).shape());
  gradient.indices_are_int32 = ctx->input_dtype(first) == tensorflow::DT_INT32;
  gradient.owns_indices = OwnsInput(ctx, first);
  gradient.indices = BufferOf(ctx->input(first));
  const Tensor& shape = ctx->input(first + 2);
  if (shape.NumElements() > 0) gradient.dense_shape.emplace();
  const auto dims = shape.flat<int64_t>();
  for (int64_t i = 0; i < std::min(shape.NumElements(), kMoreThanAnyRank); ++i) {
    gradient.dense_shape->AddDim(dims(i));
  }
  return gradient;
}

}  // namespace

absl::Status ApplyGradient(OpKernelContext* ctx, AccumulatorResource& resource,
                           const ApplyArgs& args, int first, ApplyOutcome* outcome) {
  return OrOutOfMemory(resource.where(), [&] {
    OpWorkspace workspace;
    resource.device().make_workspace(ctx, &workspace);
    Gradient gradient = ReadGradient(ctx, first, resource.spec().kind->is_sparse);
    gradient.weight = args.weight;
    const ApplyResult result =
        resource.core().Apply(args.local_step, std::move(gradient), *workspace, args.contributor);
    *outcome = result.outcome();
    return ToAbsl(result.status());
  });
}

// The rank of the value is known only after the take, so memory for the highest rank is allocated.
absl::Status ReserveOutputs(OpKernelContext* ctx, bool is_sparse, Tensor* reserved) {
  if (!is_sparse) return absl::OkStatus();
  tensorflow::AllocatorAttributes in_host_memory;
  in_host_memory.set_on_host(true);
  const TensorShape as_long_as_any({TensorShape::MaxDimensions()});
  return ctx->allocate_temp(tensorflow::DT_INT64, as_long_as_any, reserved, in_host_memory);
}

void SetOutputs(OpKernelContext* ctx, int first, const AccumulatorSpec& spec,
                const Tensor& reserved, Value value) {
  const Tensor values = TensorOf(value.values, ElementTypeOf(spec.dtype), value.shape);
  if (!spec.kind->is_sparse) return ctx->set_output(first, values);
  const Shape rows = Shape::Of({value.shape.dim(0)});
  ctx->set_output(first, TensorOf(value.indices, ElementType::kInt64, rows));
  ctx->set_output(first + 1, values);
  SetDenseShape(ctx, first + 2, spec, reserved, values.shape());
}

absl::Status SetEmptyOutputs(OpKernelContext* ctx, int first, const AccumulatorSpec& spec,
                             const Tensor& reserved, Workspace& workspace) {
  const bool is_sparse = spec.kind->is_sparse;
  TensorShape shape;
  if (is_sparse) shape.AddDim(0);
  for (int i = shape.dims(); i < spec.shape.dims(); ++i) {
    shape.AddDim(std::max<int64_t>(spec.shape.dim_size(i), 0));
  }
  Tensor* values = nullptr;
  if (!is_sparse) {
    TF_RETURN_IF_ERROR(ctx->allocate_output(first, shape, &values));
    return ToAbsl(workspace.Clear(values->data(), values->TotalBytes()));
  }
  Tensor* indices = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(first, TensorShape({0}), &indices));
  TF_RETURN_IF_ERROR(ctx->allocate_output(first + 1, shape, &values));
  SetDenseShape(ctx, first + 2, spec, reserved, shape);
  return absl::OkStatus();
}

}  // namespace condacc
