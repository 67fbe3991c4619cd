// Ops on a resource that do not wait.
#ifndef CONDACC_KERNELS_BASE_RESOURCE_OP_H_
#define CONDACC_KERNELS_BASE_RESOURCE_OP_H_

#include "absl/status/status.h"
#include "cc/kernels/base/errors.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

// Allocates a scalar output, and sets `*value` to the address of its value.
template <typename T>
absl::Status AllocateScalar(tensorflow::OpKernelContext* ctx, int index, T** value) {
  tensorflow::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(index, tensorflow::TensorShape({}), &output));
  *value = &output->scalar<T>()();
  return absl::OkStatus();
}

// Calls the function `kRun` with the resource that input 0 is a handle of. Errors name it.
template <auto kRun>
struct OnResource;

template <class Resource, class Attributes,
          absl::Status (*kRun)(Resource& resource, const Attributes& attributes,
                               tensorflow::OpKernelContext* ctx)>
struct OnResource<kRun> {
  static absl::Status Run(const Attributes& attributes, tensorflow::OpKernelContext* ctx) {
    tensorflow::core::RefCountPtr<Resource> resource;
    TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &resource));
    return Named(resource->where(), [&] { return kRun(*resource, attributes, ctx); });
  }
};

// A FunctionOp that calls such a function.
//
// Example:
//   absl::Status Close(SyncGateResource& gate, const ChiefAttributes& attributes,
//                      OpKernelContext* ctx);
//   RegisterKernel<ResourceOp<Close>>("Condacc>SyncGateClose", tensorflow::DEVICE_CPU, {});
template <auto kRun, bool kIsExpensive = false>
using ResourceOp = FunctionOp<&OnResource<kRun>::Run, kIsExpensive>;

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_RESOURCE_OP_H_
