// Ops on the gate of synchronous training, or on a worker's step, that do not wait.
#ifndef CONDACC_KERNELS_SYNC_GATE_OP_H_
#define CONDACC_KERNELS_SYNC_GATE_OP_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/sync/sync_gate_resource.h"
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

// The attributes of an op that has none.
struct NoAttributes {
  absl::Status Read(tensorflow::OpKernelConstruction*) { return absl::OkStatus(); }
};

// An op that calls `kRun`, which reads the inputs and sets the outputs. Attributes::Read() reads
// the op's attributes.
template <class Attributes,
          absl::Status (*kRun)(const Attributes& attributes, tensorflow::OpKernelContext* ctx)>
class SyncGateUserOp : public Kernel {
 public:
  explicit SyncGateUserOp(tensorflow::OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }
  bool IsExpensive() override { return false; }

 private:
  absl::Status Run(tensorflow::OpKernelContext* ctx) final { return kRun(attributes_, ctx); }
  absl::string_view where() const final { return kGate; }

  Attributes attributes_;
};

// Calls `kRun` with the gate that input 0 is a handle of.
template <class Attributes, absl::Status (*kRun)(SyncGate& gate, const Attributes& attributes,
                                                 tensorflow::OpKernelContext* ctx)>
absl::Status RunOnGate(const Attributes& attributes, tensorflow::OpKernelContext* ctx) {
  tensorflow::core::RefCountPtr<SyncGateResource> resource;
  TF_RETURN_IF_ERROR(LookupGate(ctx, &resource));
  return kRun(*resource->gate(), attributes, ctx);
}

// An op that calls `kRun` with the gate that input 0 is a handle of.
template <class Attributes, absl::Status (*kRun)(SyncGate& gate, const Attributes& attributes,
                                                 tensorflow::OpKernelContext* ctx)>
using OnSyncGateOp = SyncGateUserOp<Attributes, RunOnGate<Attributes, kRun>>;

}  // namespace condacc

#endif  // CONDACC_KERNELS_SYNC_GATE_OP_H_
