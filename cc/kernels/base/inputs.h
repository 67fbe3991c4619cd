// Reads and checks the inputs of ops.
#ifndef CONDACC_KERNELS_BASE_INPUTS_H_
#define CONDACC_KERNELS_BASE_INPUTS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

// Finds the resource that an input is a handle of. `what` describes the resource, for example "an
// accumulator". Returns InvalidArgument if the input is not a single handle or is a handle of
// something else, and NotFound if the resource is gone.
template <class Resource>
absl::Status LookupInput(tensorflow::OpKernelContext* ctx, int index, absl::string_view argument,
                         absl::string_view what,
                         tensorflow::core::RefCountPtr<Resource>* resource) {
  const tensorflow::Tensor& input = ctx->input(index);
  if (input.dtype() != tensorflow::DT_RESOURCE || input.NumElements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Argument ", argument, " must be one resource handle of ", what, ", but had dtype ",
        tensorflow::DataTypeString(input.dtype()), " and shape ", input.shape().DebugString()));
  }
  return tensorflow::LookupResource(ctx, input.flat<tensorflow::ResourceHandle>()(0), resource);
}

// The same for a class that says by which input its handle comes, and what it is.
template <class Resource>
absl::Status LookupInput(tensorflow::OpKernelContext* ctx, int index,
                         tensorflow::core::RefCountPtr<Resource>* resource) {
  return LookupInput(ctx, index, Resource::kArgument, Resource::kWhat, resource);
}

// Reads a scalar input. Returns InvalidArgument if the input is not a scalar.
template <typename T>
absl::Status ReadScalar(tensorflow::OpKernelContext* ctx, int index, absl::string_view argument,
                        T* value) {
  const tensorflow::Tensor& input = ctx->input(index);
  if (input.dims() == 0) {
    *value = input.scalar<T>()();
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Argument ", argument, " must be scalar, but had bad shape ", input.shape().DebugString()));
}

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_INPUTS_H_
