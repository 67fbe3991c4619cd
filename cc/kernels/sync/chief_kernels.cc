// Kernels by which a chief opens the gate of synchronous training and takes its rounds, apart from
// the one that waits.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "cc/kernels/sync/user_ops.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

// An op on a gate that names its chief.
class ChiefOp : public OnSyncGateOp {
 public:
  explicit ChiefOp(OpKernelConstruction* ctx) : OnSyncGateOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("chief", &chief_));
  }

 protected:
  const std::string& chief() const { return chief_; }

 private:
  std::string chief_;
};

// Inputs: gate, at_least. Output: round.
class PrepareOp : public ChiefOp {
 public:
  explicit PrepareOp(OpKernelConstruction* ctx) : ChiefOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("worker", &worker_));
  }

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext* ctx) override {
    int64_t at_least = 0;
    int64_t* round = nullptr;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "at_least", &at_least));
    TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &round));
    TF_RETURN_IF_ERROR(ToAbsl(gate.Prepare(chief(), at_least, round)));
    if (!worker_.empty()) gate.Renew(worker_, chief());
    return absl::OkStatus();
  }

  std::string worker_;
};

// Inputs: gate, round.
class OpenOp : public ChiefOp {
 public:
  explicit OpenOp(OpKernelConstruction* ctx) : ChiefOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_slots", &options_.num_slots));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_workers", &options_.num_workers));
    OP_REQUIRES_OK(ctx, ReadGateDuration(ctx, "takeover_secs", &options_.takeover));
    OP_REQUIRES_OK(ctx, ReadGateDuration(ctx, "report_secs", &options_.report));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("wait_for_lost", &options_.wait_for_lost));
  }

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext* ctx) override {
    int64_t round = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "round", &round));
    return ToAbsl(gate.Open(chief(), round, options_));
  }

  SyncGate::Options options_;
};

// Inputs: gate, round. Output: advanced.
class AdvanceOp : public ChiefOp {
 public:
  using ChiefOp::ChiefOp;

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext* ctx) override {
    int64_t round = 0;
    bool* advanced = nullptr;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "round", &round));
    TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &advanced));
    *advanced = gate.Advance(chief(), round);
    return absl::OkStatus();
  }
};

// Inputs: gate, count.
class AddCreditsOp : public ChiefOp {
 public:
  using ChiefOp::ChiefOp;

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext* ctx) override {
    int64_t count = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "count", &count));
    return ToAbsl(gate.AddCredits(chief(), count));
  }
};

// Input: gate.
class CloseOp : public ChiefOp {
 public:
  using ChiefOp::ChiefOp;

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext*) override {
    return ToAbsl(gate.Close(chief()));
  }
};

// Input: gate.
class DismissOp : public ChiefOp {
 public:
  using ChiefOp::ChiefOp;

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext*) override {
    gate.Dismiss(chief());
    return absl::OkStatus();
  }
};

// Inputs: taken, value. Output: the value, or Aborted if it was not taken.
class RequireTakenOp : public OpKernel {
 public:
  explicit RequireTakenOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
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

REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGatePrepare").Device(DEVICE_CPU), PrepareOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateOpen").Device(DEVICE_CPU), OpenOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAdvance").Device(DEVICE_CPU), AdvanceOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAddCredits").Device(DEVICE_CPU), AddCreditsOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateClose").Device(DEVICE_CPU), CloseOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateDismiss").Device(DEVICE_CPU), DismissOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateTaken").Device(DEVICE_CPU), RequireTakenOp);

#if defined(CONDACC_CUDA)

// The gate itself is always on a CPU. Gradients are where their variables are.
REGISTER_KERNEL_BUILDER(
    Name("Condacc>SyncGateTaken").Device(tensorflow::DEVICE_GPU).HostMemory("taken"),
    RequireTakenOp);

#endif

}  // namespace
}  // namespace condacc
