#include "cc/kernels/accumulator/accumulator_resource.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/kernels/base/inputs.h"
#include "tensorflow/core/framework/resource_handle.h"

namespace condacc {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

namespace {

// Compares the shape that the handle carries. A handle that is not anonymous refers to the
// accumulator by name. Since the handle was made, the accumulator may have been destroyed and
// another one made under the name.
absl::Status CheckHandleShape(OpKernelContext* ctx, const AccumulatorResource& found) {
  const auto& handle = ctx->input(0).flat<tensorflow::ResourceHandle>()(0);
  const auto& contents = handle.dtypes_and_shapes();
  if (contents.empty() || contents[0].shape.IsIdenticalTo(found.spec().shape)) {
    return absl::OkStatus();
  }
  return found.Invalid(absl::StrCat("The handle is that of an accumulator which was destroyed: ",
                                    "expected shape ", found.spec().shape.DebugString(),
                                    ", got a handle of shape ", contents[0].shape.DebugString()));
}

}  // namespace

std::string AccumulatorSpec::ToString() const {
  return absl::StrCat(kind, " accumulator '", name, "' of dtype ",
                      tensorflow::DataTypeString(dtype), ", shape ", shape.DebugString(),
                      " and reduction_type ", reduction_type);
}

absl::Status AccumulatorSpec::CheckSame(const AccumulatorSpec& other) const {
  if (kind == other.kind && dtype == other.dtype && shape.IsIdenticalTo(other.shape) &&
      reduction_type == other.reduction_type) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Shared name is in use by another accumulator: ", "expected ", ToString(),
                   ", got ", other.ToString()));
}

absl::Status ReadSpec(OpKernelConstruction* ctx, AccumulatorSpec* spec) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("dtype", &spec->dtype));
  TF_RETURN_IF_ERROR(ctx->GetAttr("shape", &spec->shape));
  TF_RETURN_IF_ERROR(ctx->GetAttr("reduction_type", &spec->reduction_type));
  if (spec->reduction_type == "SUM" || !tensorflow::DataTypeIsInteger(spec->dtype)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Integer gradients have no mean: expected reduction_type SUM for dtype ",
                   tensorflow::DataTypeString(spec->dtype), ", got ", spec->reduction_type,
                   " (accumulator '", spec->name, "')"));
}

absl::Status AccumulatorResource::Invalid(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(message, " (", where_, ")"));
}

absl::Status LookupAccumulator(OpKernelContext* ctx, AccumulatorPtr* accumulator) {
  return LookupInput(ctx, 0, "handle", "an accumulator", accumulator);
}

absl::Status LookupAccumulator(OpKernelContext* ctx, absl::string_view kind,
                               tensorflow::DataType dtype, AccumulatorPtr* accumulator) {
  AccumulatorPtr found;
  TF_RETURN_IF_ERROR(LookupAccumulator(ctx, &found));
  const AccumulatorSpec& spec = found->spec();
  if (spec.kind != kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected a ", kind, " accumulator, got ", spec.ToString()));
  }
  if (spec.dtype != dtype) {
    return found->Invalid(absl::StrCat("Dtype mismatch: expected ",
                                       tensorflow::DataTypeString(spec.dtype), ", got ",
                                       tensorflow::DataTypeString(dtype)));
  }
  TF_RETURN_IF_ERROR(CheckHandleShape(ctx, *found));
  *accumulator = std::move(found);
  return absl::OkStatus();
}

}  // namespace condacc
