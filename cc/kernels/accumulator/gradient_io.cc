#include "cc/kernels/accumulator/gradient_io.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

Gradient ReadGradient(OpKernelContext* ctx, int first, bool is_sparse) {
  // No accumulator's shape has more dimensions, so further ones need not be read.
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

Status TakeOutputs::Reserve(const Shape& shape) {
  const auto converted = [&]() -> absl::Status {
    TF_RETURN_IF_ERROR(ConvertShape(shape, &values_));
    if (!spec_.kind->is_sparse) {
      Declare(first_, spec_.dtype);
      return absl::OkStatus();
    }
    indices_.AddDim(values_.dim_size(0));
    Declare(first_, tensorflow::DT_INT64);
    Declare(first_ + 1, spec_.dtype);
    return OutputDenseShape(values_);
  }();
  if (converted.ok()) return Status();
  return Status(StatusCode::kResourceExhausted, std::string(converted.message()));
}

void TakeOutputs::Set(Value value) {
  if (!spec_.kind->is_sparse) return Set(first_, value.values, spec_.dtype, std::move(values_));
  Set(first_, value.indices, tensorflow::DT_INT64, std::move(indices_));
  Set(first_ + 1, value.values, spec_.dtype, std::move(values_));
}

absl::Status TakeOutputs::SetEmpty(Workspace& workspace) {
  Shape dims;
  if (spec_.kind->is_sparse) dims.AddDim(0);
  for (int i = dims.rank(); i < spec_.shape.dims(); ++i) {
    dims.AddDim(std::max<int64_t>(spec_.shape.dim_size(i), 0));
  }
  TensorShape shape;
  TF_RETURN_IF_ERROR(ConvertShape(dims, &shape));
  Tensor* output = nullptr;
  if (!spec_.kind->is_sparse) {
    TF_RETURN_IF_ERROR(Allocate(first_, spec_.dtype, shape, &output));
    return ToAbsl(workspace.Clear(output->data(), output->TotalBytes()));
  }
  TF_RETURN_IF_ERROR(Allocate(first_, tensorflow::DT_INT64, TensorShape({0}), &output));
  TF_RETURN_IF_ERROR(Allocate(first_ + 1, spec_.dtype, shape, &output));
  return OutputDenseShape(shape);
}

void TakeOutputs::Declare(int index, tensorflow::DataType dtype) {
  // The memory that a scoped allocator has for an output is found by the size of the output.
  if (ctx_->output_alloc_attr(index).scope_id <= 0) ctx_->set_output(index, Tensor(dtype));
}

void TakeOutputs::Set(int index, const Buffer& buffer, tensorflow::DataType dtype,
                      TensorShape shape) {
  auto* const memory = static_cast<tensorflow::TensorBuffer*>(buffer.owner());
  if (memory != nullptr) memory->Ref();
  Tensor tensor(dtype, std::move(shape),
                tensorflow::core::RefCountPtr<tensorflow::TensorBuffer>(memory));
  Tensor* const declared = ctx_->mutable_output(index);
  if (declared == nullptr) return ctx_->set_output(index, tensor);
  *declared = std::move(tensor);
}

absl::Status TakeOutputs::Allocate(int index, tensorflow::DataType dtype, const TensorShape& shape,
                                   Tensor** tensor) {
  *tensor = ctx_->mutable_output(index);
  if (*tensor == nullptr) return ctx_->allocate_output(index, shape, tensor);
  return ctx_->allocate_temp(dtype, shape, *tensor, ctx_->output_alloc_attr(index));
}

absl::Status TakeOutputs::OutputDenseShape(const TensorShape& values) {
  Tensor* shape = nullptr;
  TF_RETURN_IF_ERROR(
      Allocate(first_ + 2, tensorflow::DT_INT64, TensorShape({values.dims()}), &shape));
  auto dims = shape->vec<int64_t>();
  dims(0) = spec_.shape.dims() >= 1 ? spec_.shape.dim_size(0) : -1;
  for (int i = 1; i < values.dims(); ++i) dims(i) = values.dim_size(i);
  return absl::OkStatus();
}

}  // namespace condacc
