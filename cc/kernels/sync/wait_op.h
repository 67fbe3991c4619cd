// Ops that wait at the gate of synchronous training without blocking a thread.
#ifndef CONDACC_KERNELS_SYNC_WAIT_OP_H_
#define CONDACC_KERNELS_SYNC_WAIT_OP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cc/core/sync/gate_wait.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/async_kernel.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

// The gate at which an op waits, and the arguments of its GateWait.
struct WaitArgs {
  std::shared_ptr<SyncGate> gate;
  GateWait::For what = GateWait::For::kNextRound;
  std::string who;
  std::string run;
  int64_t session = 0;
  int64_t after = 0;
  GateWait::Clock::duration patience{};
  // The step that ends when the wait begins, if there is one, and whether any of its gradients was
  // added.
  tensorflow::core::RefCountPtr<WorkerStepResource> step;
  bool any_added = false;
};

// An execution of an op that waits at a gate. Outputs: round ([] int64) and, for workers that wait
// for the next round, dropped ([] bool) or, for observers, report ([] string).
class WaitExecution : public AsyncExecution {
 public:
  WaitExecution(tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done)
      : AsyncExecution(ctx, std::move(done)) {
    set_where(SyncGateResource::kWhat);
  }

  // Allocates the outputs, so that nothing can fail when a step or the wait ends.
  absl::Status Reserve(const WaitArgs& args) {
    TF_RETURN_IF_ERROR(ctx()->allocate_output(0, tensorflow::TensorShape({}), &round_));
    if (args.what == GateWait::For::kReport) {
      return ctx()->allocate_output(1, tensorflow::TensorShape({}), &report_);
    }
    if (args.step == nullptr) return absl::OkStatus();
    return ctx()->allocate_output(1, tensorflow::TensorShape({}), &dropped_);
  }

  // Outputs whether the gradients of the step that has ended were dropped.
  void SetDropped(bool dropped) { dropped_->scalar<bool>()() = dropped; }

  // Ends the op with the result of its wait, unless it has ended already.
  void Complete(const SyncGate& gate, const GateWait& wait) noexcept {
    AsyncExecution::Complete([&] {
      if (wait.end.code != StatusCode::kOk) return ToAbsl(gate.StatusOf(wait));
      round_->scalar<int64_t>()() = wait.round;
      if (report_ != nullptr) report_->scalar<tensorflow::tstring>()() = wait.report;
      return absl::OkStatus();
    });
  }
  using AsyncExecution::Complete;

 private:
  tensorflow::Tensor* round_ = nullptr;
  tensorflow::Tensor* report_ = nullptr;
  tensorflow::Tensor* dropped_ = nullptr;
};

// An op that waits at a gate. A subclass implements Read(), which reads from the inputs what to
// wait for.
class SyncGateWaitOp : public AsyncKernel<WaitExecution> {
 public:
  using AsyncKernel::AsyncKernel;
  bool IsExpensive() override { return false; }

 private:
  virtual absl::Status Read(tensorflow::OpKernelContext* ctx, WaitArgs* args) = 0;

  // The cancellation callback is registered before the wait begins; see AsyncExecution::OnCancel().
  absl::Status Begin(const std::shared_ptr<WaitExecution>& output) override {
    WaitArgs args;
    TF_RETURN_IF_ERROR(Read(output->ctx(), &args));
    TF_RETURN_IF_ERROR(output->Reserve(args));
    const auto wait = std::make_shared<GateWait>(
        args.what, args.who, args.run, args.after,
        [output, gate = args.gate](const GateWait& ended) { output->Complete(*gate, ended); });
    wait->session = args.session;
    wait->patience = args.patience;
    const auto cancel = [gate = args.gate, wait] { gate->Cancel(wait); };
    if (!output->OnCancel(cancel)) cancel();
    if (args.step != nullptr) output->SetDropped(args.step->step().Done(args.any_added));
    args.gate->Wait(wait);
    return absl::OkStatus();
  }
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_SYNC_WAIT_OP_H_
