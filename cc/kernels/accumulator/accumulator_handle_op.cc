#include "cc/kernels/accumulator/accumulator_handle_op.h"

#include "absl/strings/str_cat.h"

namespace condacc {

using tensorflow::OpKernelConstruction;

AccumulatorHandleOp::AccumulatorHandleOp(OpKernelConstruction* ctx) : HandleOp(ctx) {
  OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &spec_.dtype));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("shape", &spec_.shape));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("reduction_type", &spec_.reduction_type));
  spec_.name = resource_name();
  OP_REQUIRES(ctx, spec_.reduction_type == "SUM" || !tensorflow::DataTypeIsInteger(spec_.dtype),
              absl::InvalidArgumentError(absl::StrCat(
                  "Integer gradients have no mean: expected reduction_type SUM for dtype ",
                  tensorflow::DataTypeString(spec_.dtype), ", got ", spec_.reduction_type,
                  " (accumulator '", spec_.name, "')")));
}

}  // namespace condacc
