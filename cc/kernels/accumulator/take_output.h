// Completes a take op: sets its outputs and calls its `done`.
#ifndef CONDACC_KERNELS_ACCUMULATOR_TAKE_OUTPUT_H_
#define CONDACC_KERNELS_ACCUMULATOR_TAKE_OUTPUT_H_

#include <functional>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource_of.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

// Receives the result of a take. Lives as long as the take. Its context is valid until the take is
// completed, since the op calls `done` only then.
template <class Traits>
class TakeOutput {
 public:
  using Resource = AccumulatorResourceOf<Traits>;
  using Value = typename Traits::Core::Value;

  TakeOutput(tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done,
             typename Resource::Ptr resource, bool tells_taken)
      : ctx_(ctx),
        done_(std::move(done)),
        resource_(std::move(resource)),
        tells_taken_(tells_taken),
        cancellation_(ctx->cancellation_manager()),
        workspace_(ctx) {}

  Resource& resource() { return *resource_; }
  typename Traits::Workspace& workspace() { return workspace_; }

  // True if the step was cancelled. Its takes must not get gradients, which nobody would receive.
  bool is_cancelled() const { return cancellation_ != nullptr && cancellation_->IsCancelled(); }

  // Registers `cancel` to be called if the step is cancelled. Returns false if the step was
  // cancelled already, and does not call `cancel` then. Must be called before the take is
  // requested: from then on, any thread may call Complete(), which reads what is written here and
  // after which the cancellation manager may be gone. The lock under which the take is requested
  // makes what is written here visible to that thread. See TakeOp::Take() for all races.
  bool OnCancel(std::function<void()> cancel) {
    if (cancellation_ == nullptr) return true;
    token_ = cancellation_->get_cancellation_token();
    is_registered_ = cancellation_->RegisterCallback(token_, std::move(cancel));
    return is_registered_;
  }

  // Allocates the outputs other than the value before anything is taken, so that a refused
  // allocation loses no gradients.
  absl::Status Reserve() {
    if (tells_taken_) {
      TF_RETURN_IF_ERROR(ctx_->allocate_output(0, tensorflow::TensorShape({}), &taken_));
    }
    return Traits::ReserveOutputs(ctx_, &reserved_);
  }

  // Completes the op with the value or an error. Later calls do nothing. Reserve() must have
  // succeeded.
  void Complete(const Status& status, Value* value) {
    // The global step has changed since the take was requested.
    if (tells_taken_ && status.code() == StatusCode::kFailedPrecondition) return CompleteEmpty();
    Complete([&] { return value == nullptr ? ToAbsl(status) : SetOutputs(value); });
  }

  // Completes the op for too few gradients or for another step: outputs false, and empty values or
  // zeros.
  void CompleteEmpty() {
    Complete([this] {
      SetTaken(false);
      return Traits::SetEmptyOutputs(ctx_, first_output(), *resource_, reserved_);
    });
  }

  // Fails the op with ResourceExhausted, unless it has been completed already.
  void CompleteOutOfMemory() {
    Complete([this] { return resource_->OutOfMemory(); });
  }

 private:
  template <class SetOutputsOrFail>
  void Complete(SetOutputsOrFail set_outputs_or_fail) noexcept {
    if (std::exchange(is_complete_, true)) return;
    // TryDeregisterCallback() does not wait for callbacks that are running, as DeregisterCallback()
    // does: this may run inside a callback of the same manager, which would wait for itself. A
    // callback that runs too late finds that the take does not wait any more, and does nothing.
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

  int first_output() const { return tells_taken_ ? 1 : 0; }

  absl::Status SetOutputs(Value* value) {
    SetTaken(true);
    return Traits::SetOutputs(ctx_, first_output(), *resource_, reserved_, std::move(*value));
  }

  void SetTaken(bool taken) {
    if (tells_taken_) taken_->template scalar<bool>()() = taken;
  }

  tensorflow::OpKernelContext* const ctx_;
  const tensorflow::AsyncOpKernel::DoneCallback done_;
  const typename Resource::Ptr resource_;
  const bool tells_taken_;
  tensorflow::CancellationManager* const cancellation_;
  typename Traits::Workspace workspace_;
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  bool is_registered_ = false;
  bool is_complete_ = false;
  tensorflow::Tensor* taken_ = nullptr;  // The bool output of a try-take; null for other takes.
  tensorflow::Tensor reserved_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_TAKE_OUTPUT_H_
