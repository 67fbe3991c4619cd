// Ops that wait at the gate of synchronous training, without a thread.
#ifndef CONDACC_KERNELS_SYNC_WAIT_OP_H_
#define CONDACC_KERNELS_SYNC_WAIT_OP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cc/core/sync/gate_wait.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

// The gate at which an op waits, and the arguments of its GateWait.
struct WaitArgs {
  std::shared_ptr<SyncGate> gate;
  GateWait::For what = GateWait::For::kNextRound;
  std::string who;
  std::string run;
  int64_t after = 0;
  GateWait::Clock::duration patience{};
  // True if the gradients of the step before the wait were dropped. The op's second output.
  bool dropped = false;
};

// The op behind a wait. It sets the outputs and calls the op's `done` when the wait ends. Outputs:
// round ([] int64) and, for workers that wait for the next round, dropped ([] bool) or, for
// observers, report ([] string).
class WaitingOp {
 public:
  WaitingOp(tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done,
            std::shared_ptr<SyncGate> gate)
      : ctx_(ctx),
        done_(std::move(done)),
        gate_(std::move(gate)),
        cancellation_(ctx->cancellation_manager()) {}

  // Allocates the outputs, so that nothing can fail when the wait ends, and sets `dropped`.
  absl::Status Reserve(const WaitArgs& query) {
    TF_RETURN_IF_ERROR(ctx_->allocate_output(0, tensorflow::TensorShape({}), &round_));
    if (query.what == GateWait::For::kReport) {
      return ctx_->allocate_output(1, tensorflow::TensorShape({}), &report_);
    }
    if (query.what != GateWait::For::kNextRound) return absl::OkStatus();
    tensorflow::Tensor* dropped = nullptr;
    TF_RETURN_IF_ERROR(ctx_->allocate_output(1, tensorflow::TensorShape({}), &dropped));
    dropped->scalar<bool>()() = query.dropped;
    return absl::OkStatus();
  }

  // Registers `cancel` to be called if the step is cancelled. Returns false if the step was
  // cancelled already, and does not call `cancel` then. Must be called before the wait begins: from
  // then on, any thread may call Complete(), after which the cancellation manager may be gone.
  bool OnCancel(std::function<void()> cancel) {
    if (cancellation_ == nullptr) return true;
    token_ = cancellation_->get_cancellation_token();
    is_registered_ = cancellation_->RegisterCallback(token_, std::move(cancel));
    return is_registered_;
  }

  // Ends the op with the result of its wait, unless it has ended already.
  void Complete(const GateWait& wait) noexcept {
    Complete([&] {
      if (wait.end.code != StatusCode::kOk) return ToAbsl(gate_->StatusOf(wait));
      round_->scalar<int64_t>()() = wait.round;
      if (report_ != nullptr) report_->scalar<tensorflow::tstring>()() = wait.report;
      return absl::OkStatus();
    });
  }

  // Ends the op because memory was refused before its wait has begun, unless it has ended already.
  void CompleteOutOfMemory() noexcept {
    Complete([] { return GateOutOfMemory(); });
  }

 private:
  template <class SetOutputsOrFail>
  void Complete(SetOutputsOrFail set_outputs_or_fail) noexcept {
    if (std::exchange(is_complete_, true)) return;
    // TryDeregisterCallback() does not wait for callbacks that are running: this may run inside
    // one.
    if (is_registered_) cancellation_->TryDeregisterCallback(token_);
    try {
      ctx_->SetStatus(set_outputs_or_fail());
    } catch (const std::bad_alloc&) {
      ctx_->SetStatus(absl::Status(absl::StatusCode::kResourceExhausted, ""));  // Needs no memory.
    }
    try {
      done_();
    } catch (const std::bad_alloc&) {
      // The op is complete. An allocation that fails in the executor afterwards cannot be reported.
    }
  }

  tensorflow::OpKernelContext* const ctx_;
  const tensorflow::AsyncOpKernel::DoneCallback done_;
  const std::shared_ptr<SyncGate> gate_;
  tensorflow::CancellationManager* const cancellation_;
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  bool is_registered_ = false;
  bool is_complete_ = false;
  tensorflow::Tensor* round_ = nullptr;
  tensorflow::Tensor* report_ = nullptr;
};

// An op that waits at a gate. Read() of its subclass reads from the inputs what it waits for.
class SyncGateWaitOp : public tensorflow::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) final {
    WaitArgs query;
    std::shared_ptr<WaitingOp> op;
    try {
      OP_REQUIRES_OK_ASYNC(ctx, Read(ctx, &query), done);
      op = std::make_shared<WaitingOp>(ctx, done, query.gate);
    } catch (const std::bad_alloc&) {
      ctx->SetStatus(GateOutOfMemory());
      return done();
    }
    OP_REQUIRES_OK_ASYNC(ctx, op->Reserve(query), done);
    try {
      Wait(query, op);
    } catch (const std::bad_alloc&) {
      op->CompleteOutOfMemory();
    }
  }
  bool IsExpensive() override { return false; }

 private:
  virtual absl::Status Read(tensorflow::OpKernelContext* ctx, WaitArgs* query) = 0;

  // Begins the wait. The cancellation callback is registered before, for the same reasons as that
  // of a take (see TakeOp::Take()).
  static void Wait(const WaitArgs& query, const std::shared_ptr<WaitingOp>& op) {
    const auto wait =
        std::make_shared<GateWait>(query.what, query.who, query.run, query.after,
                                   [op](const GateWait& ended) { op->Complete(ended); });
    wait->patience = query.patience;
    const auto cancel = [gate = query.gate, wait] { gate->Cancel(wait); };
    if (!op->OnCancel(cancel)) cancel();
    query.gate->Wait(wait);
  }
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_SYNC_WAIT_OP_H_
