// Kernels that make and watch the gate of synchronous training, and those of workers that do not
// wait.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "cc/kernels/sync/user_ops.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"
#include "tensorflow/core/platform/tstring.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// An op on a gate that names its worker.
class WorkerOp : public OnSyncGateOp {
 public:
  explicit WorkerOp(OpKernelConstruction* ctx) : OnSyncGateOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("worker", &worker_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("run", &run_));
  }

 protected:
  const std::string& worker() const { return worker_; }
  const std::string& run() const { return run_; }

 private:
  std::string worker_;
  std::string run_;
};

// Inputs: gate, local_step. Output: step.
class EnterOp : public WorkerOp {
 public:
  using WorkerOp::WorkerOp;

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext* ctx) override {
    int64_t local_step = 0;
    ResourceHandle* step = nullptr;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", &local_step));
    TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &step));
    std::unique_ptr<WorkerStep> entered;
    TF_RETURN_IF_ERROR(ToAbsl(gate.Enter(worker(), run(), local_step, &entered)));
    *step = ResourceHandle::MakeRefCountingHandle(new WorkerStepResource(std::move(entered)),
                                                  ctx->device()->name());
    return absl::OkStatus();
  }
};

// Input: step. Output: claim.
class ClaimOp : public SyncGateUserOp {
 public:
  using SyncGateUserOp::SyncGateUserOp;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    tensorflow::core::RefCountPtr<WorkerStepResource> step;
    TF_RETURN_IF_ERROR(LookupWorkerStep(ctx, &step));
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({2}), &output));
    const WorkerStep::Claim claim = step->step().ClaimSlot();
    output->flat<int64_t>()(0) = claim.round;
    output->flat<int64_t>()(1) = claim.slot;
    return absl::OkStatus();
  }
};

// Inputs: outcomes. Output: any_added.
class PushedOp : public SyncGateUserOp {
 public:
  explicit PushedOp(OpKernelConstruction* ctx) : SyncGateUserOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("accumulators", &accumulators_));
    OP_REQUIRES(ctx, static_cast<int>(accumulators_.size()) == ctx->num_inputs(),
                absl::InvalidArgumentError(absl::StrCat(
                    "Expected as many accumulators as outcomes, got ", accumulators_.size(),
                    " accumulators and ", ctx->num_inputs(), " outcomes")));
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    bool* any_added = nullptr;
    TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &any_added));
    *any_added = false;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      int32_t outcome = 0;
      TF_RETURN_IF_ERROR(ReadScalar(ctx, i, "outcomes", &outcome));
      if (outcome == static_cast<int32_t>(ApplyOutcome::kAhead)) {
        return absl::AbortedError(absl::StrCat(
            "Accumulator '", accumulators_[static_cast<size_t>(i)],
            "' is behind the round of its gate, so the gradients of this step do not belong to one "
            "round. A new session of the chief, with chief_init_op, begins a new round."));
      }
      *any_added |= outcome == static_cast<int32_t>(ApplyOutcome::kAdded);
    }
    return absl::OkStatus();
  }

  std::vector<std::string> accumulators_;
};

// Input: gate.
class LeaveOp : public WorkerOp {
 public:
  explicit LeaveOp(OpKernelConstruction* ctx) : WorkerOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("is_lost", &is_lost_));
  }

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext*) override {
    gate.Leave(worker(), run(), is_lost_);
    return absl::OkStatus();
  }

  bool is_lost_ = false;
};

// Inputs: gate, worker.
class LoseOp : public OnSyncGateOp {
 public:
  using OnSyncGateOp::OnSyncGateOp;

 private:
  absl::Status RunOn(SyncGate& gate, OpKernelContext* ctx) override {
    tensorflow::tstring worker;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "worker", &worker));
    gate.Lose(worker);
    return absl::OkStatus();
  }
};

// Input: gate. Outputs: open, round, num_complete, num_takeovers, num_dropped.
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
                              state.num_dropped};
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
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGatePushed").Device(DEVICE_CPU), PushedOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateLose").Device(DEVICE_CPU), LoseOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateLeave").Device(DEVICE_CPU), LeaveOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateState").Device(DEVICE_CPU), StateOp);

}  // namespace
}  // namespace condacc
