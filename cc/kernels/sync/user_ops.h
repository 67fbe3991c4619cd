// Ops on the gate of synchronous training, or on a step, that do not wait.
#ifndef CONDACC_KERNELS_SYNC_USER_OPS_H_
#define CONDACC_KERNELS_SYNC_USER_OPS_H_

#include <cstdint>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

// An op on a gate or on a step.
class SyncGateUserOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) final {
    try {
      OP_REQUIRES_OK(ctx, Run(ctx));
    } catch (const std::bad_alloc&) {
      ctx->SetStatus(GateOutOfMemory());
    }
  }
  bool IsExpensive() override { return false; }

 protected:
  // Allocates a scalar output, and outputs the address of its value.
  template <typename T>
  static absl::Status AllocateScalar(tensorflow::OpKernelContext* ctx, int index, T** value) {
    tensorflow::Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(index, tensorflow::TensorShape({}), &output));
    *value = &output->scalar<T>()();
    return absl::OkStatus();
  }

 private:
  virtual absl::Status Run(tensorflow::OpKernelContext* ctx) = 0;
};

// An op on the gate that input 0 is a handle of.
class OnSyncGateOp : public SyncGateUserOp {
 public:
  using SyncGateUserOp::SyncGateUserOp;

 private:
  absl::Status Run(tensorflow::OpKernelContext* ctx) final {
    tensorflow::core::RefCountPtr<SyncGateResource> resource;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &resource));
    return RunOn(*resource->gate(), ctx);
  }
  virtual absl::Status RunOn(SyncGate& gate, tensorflow::OpKernelContext* ctx) = 0;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_SYNC_USER_OPS_H_
