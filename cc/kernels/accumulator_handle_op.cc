#define EIGEN_USE_THREADS
#include "cc/kernels/accumulator_handle_op.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/resource_handle.h"

namespace condacc {

using tensorflow::DT_RESOURCE;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;

AccumulatorHandleOp::AccumulatorHandleOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
  std::string shared_name;
  OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &spec_.dtype));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("shape", &spec_.shape));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("reduction_type", &spec_.reduction_type));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("anonymous", &anonymous_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("shared_name", &shared_name));
  spec_.name = shared_name.empty() ? name() : shared_name;
  OP_REQUIRES(ctx, spec_.reduction_type == "SUM" || !tensorflow::DataTypeIsInteger(spec_.dtype),
              absl::InvalidArgumentError(absl::StrCat(
                  "Integer gradients have no mean: expected reduction_type SUM for dtype ",
                  tensorflow::DataTypeString(spec_.dtype), ", got ", spec_.reduction_type,
                  " (accumulator '", spec_.name, "')")));
}

AccumulatorHandleOp::~AccumulatorHandleOp() {
  if (!has_handle_ || !container_.resource_is_private_to_kernel()) return;
  // It may be gone already, with its container or by DestroyResourceOp.
  container_.resource_manager()
      ->Delete<AccumulatorResource>(container_.container(), container_.name())
      .IgnoreError();
}

void AccumulatorHandleOp::Compute(OpKernelContext* ctx) {
  if (anonymous_) {
    ctx->set_output(0, AnonymousHandle(ctx));
    return;
  }
  MutexLock lock(&mu_);
  if (!has_handle_) OP_REQUIRES_OK(ctx, MakeHandle(ctx));
  ctx->set_output(0, handle_);
}

Tensor AccumulatorHandleOp::AnonymousHandle(OpKernelContext* ctx) const {
  Tensor handle(DT_RESOURCE, TensorShape({}));
  handle.scalar<ResourceHandle>()() = ResourceHandle::MakeRefCountingHandle<AccumulatorResource>(
      NewResource(spec_), ctx->device()->name(), {{spec_.dtype, spec_.shape}});
  return handle;
}

absl::Status AccumulatorHandleOp::MakeHandle(OpKernelContext* ctx) {
  TF_RETURN_IF_ERROR(container_.Init(ctx->resource_manager(), def()));
  AccumulatorResource* resource = nullptr;
  TF_RETURN_IF_ERROR(container_.resource_manager()->LookupOrCreate<AccumulatorResource>(
      container_.container(), container_.name(), &resource, [this](AccumulatorResource** made) {
        *made = NewResource(spec_);
        return absl::OkStatus();
      }));
  const AccumulatorPtr reference(resource);
  TF_RETURN_IF_ERROR(resource->spec().CheckSame(spec_));
  Tensor handle(DT_RESOURCE, TensorShape({}));
  handle.scalar<ResourceHandle>()() = tensorflow::MakeResourceHandle<AccumulatorResource>(
      ctx, container_.container(), container_.name(), {{spec_.dtype, spec_.shape}});
  handle_ = std::move(handle);
  has_handle_ = true;
  return absl::OkStatus();
}

}  // namespace condacc
