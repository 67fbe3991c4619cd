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

// A FunctionOp whose function gets the resource that input 0 is a handle of. Errors name it.
// `kIsExpensive` tells TensorFlow whether the op may take long, so that it does not run it in a
// thread that others need.
//
// Example:
//   absl::Status Close(SyncGateResource& gate, const ChiefAttributes& attributes,
//                      OpKernelContext* ctx);
//   RegisterKernel<ResourceOp<Close>>("Condacc>SyncGateClose", tensorflow::DEVICE_CPU, {});
template <auto kRun, bool kIsExpensive = false>
class ResourceOp;

template <class Resource, class Attributes,
          absl::Status (*kRun)(Resource& resource, const Attributes& attributes,
                               tensorflow::OpKernelContext* ctx),
          bool kIsExpensive>
class ResourceOp<kRun, kIsExpensive> : public Kernel {
 public:
  explicit ResourceOp(tensorflow::OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }
  bool IsExpensive() override { return kIsExpensive; }

 private:
  absl::Status Run(tensorflow::OpKernelContext* ctx) final {
    tensorflow::core::RefCountPtr<Resource> resource;
    TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &resource));
    return Named(resource->where(), [&] { return kRun(*resource, attributes_, ctx); });
  }

  Attributes attributes_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_RESOURCE_OP_H_
