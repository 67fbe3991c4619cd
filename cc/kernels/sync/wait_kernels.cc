// Ops that wait at the gate of synchronous training without blocking a thread.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/core/sync/gate_wait.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/async_kernel.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/resource_op.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::core::RefCountPtr;
using WorkerStepPtr = RefCountPtr<WorkerStepResource>;

// This says what an op waits for and at which gate.
struct WaitArgs {
  std::shared_ptr<SyncGate> gate;
  GateWait::Ptr wait;
  // The step that ends when the wait begins, if there is one, and whether any of its gradients was
  // added.
  WorkerStepPtr step;
  bool any_added = false;
};

// An execution of an op that waits at a gate. Outputs: round ([] int64) and, for workers that wait
// for the next round, dropped ([] bool) or, for observers, report ([] string).
class WaitExecution : public AsyncExecution {
 public:
  using AsyncExecution::AsyncExecution;

  // Allocates the outputs, so that nothing can fail when a step or the wait ends.
  absl::Status Reserve(const WaitArgs& args) {
    TF_RETURN_IF_ERROR(ctx()->allocate_output(0, TensorShape({}), &round_));
    if (args.wait->what == GateWait::For::kReport) {
      return ctx()->allocate_output(1, TensorShape({}), &report_);
    }
    if (args.step == nullptr) return absl::OkStatus();
    return ctx()->allocate_output(1, TensorShape({}), &dropped_);
  }

  // Outputs whether the gradients of the step that has ended were dropped.
  void SetDropped(bool dropped) { dropped_->scalar<bool>()() = dropped; }

  // Ends the op with the result of its wait, unless it has ended already.
  void Complete(const GateWait& wait) noexcept {
    AsyncExecution::Complete([&] {
      if (wait.end.code != StatusCode::kOk) return ToAbsl(wait.status());
      round_->scalar<int64_t>()() = wait.round;
      if (report_ != nullptr) report_->scalar<tensorflow::tstring>()() = wait.report;
      return absl::OkStatus();
    });
  }
  using AsyncExecution::Complete;

  // The gate at which the op waits, once it is found.
  std::shared_ptr<SyncGate> gate;

 private:
  absl::string_view where() const override {
    return gate == nullptr ? absl::string_view() : gate->where();
  }

  Tensor* round_ = nullptr;
  Tensor* report_ = nullptr;
  Tensor* dropped_ = nullptr;
};

// An op that waits at a gate. `kRead` reads from the inputs what to wait for, and
// Attributes::Read() reads the attributes.
template <class Attributes,
          absl::Status (*kRead)(OpKernelContext* ctx, const Attributes& attributes, WaitArgs* args)>
class WaitOp : public AsyncKernel<WaitExecution> {
 public:
  explicit WaitOp(OpKernelConstruction* ctx) : AsyncKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }
  bool IsExpensive() override { return false; }

 private:
  // The cancellation callback is registered before the wait begins; see AsyncExecution::OnCancel().
  absl::Status Begin(const std::shared_ptr<WaitExecution>& execution) override {
    WaitArgs args;
    const absl::Status status = kRead(execution->ctx(), attributes_, &args);
    execution->gate = args.gate;
    TF_RETURN_IF_ERROR(status);
    TF_RETURN_IF_ERROR(execution->Reserve(args));
    args.wait->done = [execution](const GateWait& ended) { execution->Complete(ended); };
    const auto cancel = [gate = args.gate, wait = args.wait] { gate->Cancel(wait); };
    if (!execution->OnCancel(cancel)) cancel();
    if (args.step != nullptr) execution->SetDropped(args.step->step->Done(args.any_added));
    args.gate->Wait(args.wait);
    return absl::OkStatus();
  }

  Attributes attributes_;
};

// Inputs: step, added. Outputs: round, dropped.
absl::Status ReadFinish(OpKernelContext* ctx, const NoAttributes&, WaitArgs* args) {
  WorkerStepPtr found;
  TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &found));
  const WorkerStep& step = *found->step;
  args->gate = step.gate();
  args->any_added = ctx->num_inputs() == 1;  // A step without gradients is not dropped.
  for (int i = 1; i < ctx->num_inputs(); ++i) {
    bool added = false;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, i, "added", &added));
    args->any_added |= added;
  }
  args->wait = std::make_shared<GateWait>(GateWait::For::kNextRound, step.worker(), step.run(),
                                          step.local_step());
  args->step = std::move(found);
  return absl::OkStatus();
}

// Reads input 0.
absl::Status ReadGate(OpKernelContext* ctx, WaitArgs* args) {
  RefCountPtr<SyncGateResource> found;
  TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &found));
  args->gate = found->gate();
  return absl::OkStatus();
}

struct AwaitOpenAttributes : WorkerAttributes {
  SyncGate::Clock::duration patience{};

  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ReadGateDuration(ctx, "late_secs", &patience));
    return WorkerAttributes::Read(ctx);
  }
};

// Input: gate. Output: round.
absl::Status ReadAwaitOpen(OpKernelContext* ctx, const AwaitOpenAttributes& attributes,
                           WaitArgs* args) {
  args->wait =
      std::make_shared<GateWait>(GateWait::For::kOpening, attributes.worker, attributes.run, 0);
  args->wait->patience = attributes.patience;
  return ReadGate(ctx, args);
}

// Inputs: gate, session. Output: round.
absl::Status ReadAwaitFull(OpKernelContext* ctx, const ChiefAttributes& attributes,
                           WaitArgs* args) {
  // A chief waits under its name.
  args->wait = std::make_shared<GateWait>(GateWait::For::kFullRound, "", attributes.chief, 0);
  TF_RETURN_IF_ERROR(ReadGate(ctx, args));
  return ReadScalar(ctx, 1, "session", &args->wait->session);
}

struct ReportAttributes {
  std::string run;
  SyncGate::Clock::duration patience{};

  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("run", &run));
    return ReadGateDuration(ctx, "report_secs", &patience);
  }
};

// Inputs: gate, session, seen. Outputs: round, report.
absl::Status ReadReport(OpKernelContext* ctx, const ReportAttributes& attributes, WaitArgs* args) {
  int64_t seen = 0;
  TF_RETURN_IF_ERROR(ReadGate(ctx, args));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "seen", &seen));
  args->wait = std::make_shared<GateWait>(GateWait::For::kReport, "", attributes.run, seen);
  args->wait->patience = attributes.patience;
  return ReadScalar(ctx, 1, "session", &args->wait->session);
}

using FinishOp = WaitOp<NoAttributes, ReadFinish>;
using AwaitOpenOp = WaitOp<AwaitOpenAttributes, ReadAwaitOpen>;
using AwaitFullOp = WaitOp<ChiefAttributes, ReadAwaitFull>;
using ReportOp = WaitOp<ReportAttributes, ReadReport>;

REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateFinish").Device(DEVICE_CPU), FinishOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAwaitOpen").Device(DEVICE_CPU), AwaitOpenOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAwaitFull").Device(DEVICE_CPU), AwaitFullOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateReport").Device(DEVICE_CPU), ReportOp);

}  // namespace
}  // namespace condacc
