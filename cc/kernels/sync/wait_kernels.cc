// Kernels that wait at the gate of synchronous training.
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cc/core/sync/gate_wait.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "cc/kernels/sync/wait_op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::core::RefCountPtr;
using GatePtr = RefCountPtr<SyncGateResource>;
using WorkerStepPtr = RefCountPtr<WorkerStepResource>;

// Inputs: step, added. Outputs: round, dropped.
class FinishOp : public SyncGateWaitOp {
 public:
  using SyncGateWaitOp::SyncGateWaitOp;

 private:
  absl::Status Read(OpKernelContext* ctx, WaitArgs* args) override {
    WorkerStepPtr found;
    TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &found));
    args->any_added = ctx->num_inputs() == 1;  // A step without gradients is not dropped.
    for (int i = 1; i < ctx->num_inputs(); ++i) {
      bool added = false;
      TF_RETURN_IF_ERROR(ReadScalar(ctx, i, "added", &added));
      args->any_added |= added;
    }
    const WorkerStep& step = found->step();
    args->gate = step.gate();
    args->what = GateWait::For::kNextRound;
    args->who = step.worker();
    args->run = step.run();
    args->after = step.local_step();
    args->step = std::move(found);
    return absl::OkStatus();
  }
};

// Input: gate. Output: round.
class AwaitOpenOp : public SyncGateWaitOp {
 public:
  explicit AwaitOpenOp(OpKernelConstruction* ctx) : SyncGateWaitOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("worker", &worker_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("run", &run_));
  }

 private:
  absl::Status Read(OpKernelContext* ctx, WaitArgs* args) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &gate));
    args->gate = gate->gate();
    args->what = GateWait::For::kOpening;
    args->who = worker_;
    args->run = run_;
    return absl::OkStatus();
  }

  std::string worker_;
  std::string run_;
};

// Inputs: gate, session. Output: round.
class AwaitFullOp : public SyncGateWaitOp {
 public:
  explicit AwaitFullOp(OpKernelConstruction* ctx) : SyncGateWaitOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("chief", &chief_));
  }

 private:
  absl::Status Read(OpKernelContext* ctx, WaitArgs* args) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &gate));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "session", &args->session));
    args->gate = gate->gate();
    args->what = GateWait::For::kFullRound;
    args->run = chief_;
    return absl::OkStatus();
  }

  std::string chief_;
};

// Inputs: gate, session, seen. Outputs: round, report.
class ReportOp : public SyncGateWaitOp {
 public:
  explicit ReportOp(OpKernelConstruction* ctx) : SyncGateWaitOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("run", &run_));
    OP_REQUIRES_OK(ctx, ReadGateDuration(ctx, "report_secs", &patience_));
  }

 private:
  absl::Status Read(OpKernelContext* ctx, WaitArgs* args) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &gate));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "session", &args->session));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "seen", &args->after));
    args->gate = gate->gate();
    args->run = run_;
    args->what = GateWait::For::kReport;
    args->patience = patience_;
    return absl::OkStatus();
  }

  std::string run_;
  SyncGate::Clock::duration patience_{};
};

REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateFinish").Device(DEVICE_CPU), FinishOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAwaitOpen").Device(DEVICE_CPU), AwaitOpenOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAwaitFull").Device(DEVICE_CPU), AwaitFullOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateReport").Device(DEVICE_CPU), ReportOp);

}  // namespace
}  // namespace condacc
