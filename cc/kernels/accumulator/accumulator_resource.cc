#include "cc/kernels/accumulator/accumulator_resource.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "cc/kernels/base/inputs.h"

namespace condacc {

using tensorflow::OpKernelContext;

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

absl::Status AccumulatorResource::Invalid(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(message, " (accumulator '", spec_.name, "')"));
}

absl::Status AccumulatorResource::OutOfMemory() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("Out of memory (accumulator '", spec_.name, "')"));
}

absl::Status LookupAccumulator(OpKernelContext* ctx, AccumulatorPtr* accumulator) {
  return LookupInput(ctx, 0, "handle", "an accumulator", accumulator);
}

}  // namespace condacc
