// Kernels that make and watch the gate of synchronous training, and those of workers that do not
// wait.
#define EIGEN_USE_THREADS
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cc/core/gate/sync_gate.h"
#include "cc/kernels/inputs.h"
#include "cc/kernels/sync_gate_resource.h"
#include "cc/kernels/sync_gate_user_ops.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Inputs: gate, local_step. Output: reservation.
class EnterOp : public OnSyncGateOp {
 public:
  explicit EnterOp(OpKernelConstruction* ctx) : OnSyncGateOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("worker", &worker_));
  }

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext* ctx) override {
    int64_t local_step = 0;
    ResourceHandle* reservation = nullptr;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", &local_step));
    TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &reservation));
    *reservation = ResourceHandle::MakeRefCountingHandle(
        new SyncGateReservationResource(gate.Enter(worker_, local_step)), ctx->device()->name());
    return absl::OkStatus();
  }

  std::string worker_;
};

// Input: reservation. Output: claim.
class ClaimOp : public SyncGateUserOp {
 public:
  using SyncGateUserOp::SyncGateUserOp;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    tensorflow::core::RefCountPtr<SyncGateReservationResource> reservation;
    TF_RETURN_IF_ERROR(LookupReservation(ctx, &reservation));
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({2}), &output));
    const GateReservation::Claim claim = reservation->reservation().ClaimSlot();
    output->flat<int64_t>()(0) = claim.round;
    output->flat<int64_t>()(1) = claim.slot;
    return absl::OkStatus();
  }
};

// Input: gate.
class LeaveOp : public OnSyncGateOp {
 public:
  explicit LeaveOp(OpKernelConstruction* ctx) : OnSyncGateOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("worker", &worker_));
  }

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext*) override {
    gate.Leave(worker_);
    return absl::OkStatus();
  }

  std::string worker_;
};

// Input: gate. Outputs: open, round, num_complete, num_takeovers, num_refused.
class StateOp : public OnSyncGateOp {
 public:
  using OnSyncGateOp::OnSyncGateOp;

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext* ctx) override {
    const SyncGate::State state = gate.state();
    bool* open = nullptr;
    TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &open));
    *open = state.open;
    const int64_t counts[] = {state.round, state.num_complete, state.num_takeovers,
                              state.num_refused};
    for (int i = 0; i < 4; ++i) {
      int64_t* count = nullptr;
      TF_RETURN_IF_ERROR(AllocateScalar(ctx, i + 1, &count));
      *count = counts[i];
    }
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGate").Device(DEVICE_CPU), SyncGateOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateEnter").Device(DEVICE_CPU), EnterOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateClaim").Device(DEVICE_CPU), ClaimOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateLeave").Device(DEVICE_CPU), LeaveOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateState").Device(DEVICE_CPU), StateOp);

}  // namespace
}  // namespace condacc
