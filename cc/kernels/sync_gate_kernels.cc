// Kernels of the gate of synchronous training, apart from those that wait.
#define EIGEN_USE_THREADS
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/gate/sync_gate.h"
#include "cc/kernels/inputs.h"
#include "cc/kernels/status_conversion.h"
#include "cc/kernels/sync_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::core::RefCountPtr;
using GatePtr = RefCountPtr<SyncGateResource>;
using ReservationPtr = RefCountPtr<SyncGateReservationResource>;

// Inputs: gate, local_step. Output: reservation.
class EnterOp : public SyncGateUserOp {
 public:
  explicit EnterOp(OpKernelConstruction* ctx) : SyncGateUserOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("worker", &worker_));
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    int64_t local_step = 0;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", &local_step));
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<ResourceHandle>()() = ResourceHandle::MakeRefCountingHandle(
        new SyncGateReservationResource(gate->gate()->Enter(worker_, local_step)),
        ctx->device()->name());
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
    ReservationPtr reservation;
    TF_RETURN_IF_ERROR(LookupReservation(ctx, &reservation));
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({2}), &output));
    const GateReservation::Claim claim = reservation->reservation().ClaimSlot();
    output->flat<int64_t>()(0) = claim.round;
    output->flat<int64_t>()(1) = claim.slot;
    return absl::OkStatus();
  }
};

// Inputs: gate, at_least. Output: round.
class PrepareOp : public SyncGateUserOp {
 public:
  explicit PrepareOp(OpKernelConstruction* ctx) : SyncGateUserOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("chief", &chief_));
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    int64_t at_least = 0;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "at_least", &at_least));
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    return ToAbsl(gate->gate()->Prepare(chief_, at_least, &output->scalar<int64_t>()()));
  }

  std::string chief_;
};

// Inputs: gate, round.
class OpenOp : public SyncGateUserOp {
 public:
  explicit OpenOp(OpKernelConstruction* ctx) : SyncGateUserOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("chief", &chief_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_slots", &options_.num_slots));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_workers", &options_.num_workers));
    OP_REQUIRES_OK(ctx, ReadGateDuration(ctx, "takeover_secs", &options_.takeover));
    OP_REQUIRES_OK(ctx, ReadGateDuration(ctx, "report_secs", &options_.report));
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    int64_t round = 0;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "round", &round));
    return ToAbsl(gate->gate()->Open(chief_, round, options_));
  }

  std::string chief_;
  SyncGate::Options options_;
};

// Inputs: gate, round. Output: advanced.
class AdvanceOp : public SyncGateUserOp {
 public:
  using SyncGateUserOp::SyncGateUserOp;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    int64_t round = 0;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "round", &round));
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<bool>()() = gate->gate()->Advance(round);
    return absl::OkStatus();
  }
};

// Inputs: gate, count.
class AddCreditsOp : public SyncGateUserOp {
 public:
  using SyncGateUserOp::SyncGateUserOp;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    int64_t count = 0;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "count", &count));
    gate->gate()->AddCredits(count);
    return absl::OkStatus();
  }
};

// Input: gate.
class CloseOp : public SyncGateUserOp {
 public:
  using SyncGateUserOp::SyncGateUserOp;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    gate->gate()->Close();
    return absl::OkStatus();
  }
};

// Input: gate.
class LeaveOp : public SyncGateUserOp {
 public:
  explicit LeaveOp(OpKernelConstruction* ctx) : SyncGateUserOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("worker", &worker_));
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    gate->gate()->Leave(worker_);
    return absl::OkStatus();
  }

  std::string worker_;
};

// Input: gate.
class DismissOp : public SyncGateUserOp {
 public:
  explicit DismissOp(OpKernelConstruction* ctx) : SyncGateUserOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("chief", &chief_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("worker", &worker_));
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    gate->gate()->Dismiss(chief_, worker_);
    return absl::OkStatus();
  }

  std::string chief_;
  std::string worker_;
};

// Input: gate. Outputs: open, round, num_complete, num_takeovers, num_refused.
class StateOp : public SyncGateUserOp {
 public:
  using SyncGateUserOp::SyncGateUserOp;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    const SyncGate::State state = gate->gate()->state();
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<bool>()() = state.open;
    const int64_t counts[] = {state.round, state.num_complete, state.num_takeovers,
                              state.num_refused};
    for (int i = 0; i < 4; ++i) {
      TF_RETURN_IF_ERROR(ctx->allocate_output(i + 1, TensorShape({}), &output));
      output->scalar<int64_t>()() = counts[i];
    }
    return absl::OkStatus();
  }
};

// Inputs: taken, value. Output: the value, or Aborted if it was not taken.
class TakenOp : public OpKernel {
 public:
  explicit TakenOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("accumulator", &accumulator_));
  }

  void Compute(OpKernelContext* ctx) override {
    bool taken = false;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 0, "taken", &taken));
    OP_REQUIRES(ctx, taken,
                absl::AbortedError(absl::StrCat(
                    "Accumulator '", accumulator_, "' does not have the gradients of the round ",
                    "that its gate has: another chief, or an earlier one, has reset it. A new ",
                    "session, with chief_init_op, begins a new round.")));
    ctx->set_output(0, ctx->input(1));
  }
  bool IsExpensive() override { return false; }

 private:
  std::string accumulator_;
};

REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGate").Device(DEVICE_CPU), SyncGateOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateEnter").Device(DEVICE_CPU), EnterOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateClaim").Device(DEVICE_CPU), ClaimOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateLeave").Device(DEVICE_CPU), LeaveOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAdvance").Device(DEVICE_CPU), AdvanceOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGatePrepare").Device(DEVICE_CPU), PrepareOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateOpen").Device(DEVICE_CPU), OpenOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAddCredits").Device(DEVICE_CPU), AddCreditsOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateClose").Device(DEVICE_CPU), CloseOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateDismiss").Device(DEVICE_CPU), DismissOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateState").Device(DEVICE_CPU), StateOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateTaken").Device(DEVICE_CPU), TakenOp);

#if defined(CONDACC_CUDA)

// The gate itself is always on a CPU. Gradients are where their variables are.
REGISTER_KERNEL_BUILDER(
    Name("Condacc>SyncGateTaken").Device(tensorflow::DEVICE_GPU).HostMemory("taken"), TakenOp);

#endif

}  // namespace
}  // namespace condacc
