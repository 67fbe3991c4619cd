// Kernels that make and observe the gate of synchronous training, and the kernels of workers that
// do not wait.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/handle_op.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/resource_op.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/tstring.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;

struct LeaveAttributes : WorkerAttributes {
  bool is_lost = false;

  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("is_lost", &is_lost));
    return WorkerAttributes::Read(ctx);
  }
};

// Inputs: gate, local_step. Output: step.
absl::Status Enter(SyncGateResource& resource, const WorkerAttributes& attributes,
                   OpKernelContext* ctx) {
  int64_t local_step = 0;
  ResourceHandle* step = nullptr;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", &local_step));
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &step));
  // Everything that needs memory is done before the step begins.
  auto* const made = new WorkerStepResource(resource.where());
  *step = ResourceHandle::MakeRefCountingHandle(made, ctx->device()->name());
  return ToAbsl(resource.gate()->Enter(attributes.worker, attributes.run, local_step, &made->step));
}

// Input: step. Output: claim.
absl::Status Claim(WorkerStepResource& resource, const NoAttributes&, OpKernelContext* ctx) {
  Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({2}), &output));
  const WorkerStep::Claim claim = resource.step->ClaimSlot();
  output->flat<int64_t>()(0) = claim.round;
  output->flat<int64_t>()(1) = claim.slot;
  return absl::OkStatus();
}

struct PushedAttributes {
  std::vector<std::string> accumulators;

  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("accumulators", &accumulators));
    if (static_cast<int>(accumulators.size()) == ctx->num_inputs()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("Expected as many accumulators as outcomes, got ", accumulators.size(),
                     " accumulators and ", ctx->num_inputs(), " outcomes"));
  }
};

// Inputs: outcomes. Output: any_added.
absl::Status Pushed(const PushedAttributes& attributes, OpKernelContext* ctx) {
  bool* any_added = nullptr;
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &any_added));
  *any_added = false;
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    int32_t outcome = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, i, "outcomes", &outcome));
    if (outcome == static_cast<int32_t>(ApplyOutcome::kAhead)) {
      return absl::AbortedError(absl::StrCat(
          "Accumulator '", attributes.accumulators[static_cast<size_t>(i)],
          "' is behind the round of its gate, so the gradients of this step do not belong to one "
          "round. A new session of the chief, with chief_init_op, begins a new round."));
    }
    *any_added |= outcome == static_cast<int32_t>(ApplyOutcome::kAdded);
  }
  return absl::OkStatus();
}

// Input: gate.
absl::Status Leave(SyncGateResource& resource, const LeaveAttributes& attributes,
                   OpKernelContext*) {
  resource.gate()->Leave(attributes.worker, attributes.run, attributes.is_lost);
  return absl::OkStatus();
}

// Inputs: gate, worker.
absl::Status Lose(SyncGateResource& resource, const NoAttributes&, OpKernelContext* ctx) {
  tensorflow::tstring worker;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "worker", &worker));
  resource.gate()->Lose(worker);
  return absl::OkStatus();
}

// Input: gate. Outputs: open, round, num_complete, num_takeovers, num_dropped.
absl::Status OutputState(SyncGateResource& resource, const NoAttributes&, OpKernelContext* ctx) {
  const SyncGate::State state = resource.gate()->state();
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

[[maybe_unused]] const bool kWorkerOps[] = {
    RegisterKernel<NamedHandleOp<SyncGateResource>>("Condacc>SyncGate", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Enter>>("Condacc>SyncGateEnter", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Claim>>("Condacc>SyncGateClaim", DEVICE_CPU, {}),
    RegisterKernel<FunctionOp<Pushed>>("Condacc>SyncGatePushed", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Lose>>("Condacc>SyncGateLose", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Leave>>("Condacc>SyncGateLeave", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<OutputState>>("Condacc>SyncGateState", DEVICE_CPU, {}),
};

}  // namespace
}  // namespace condacc
