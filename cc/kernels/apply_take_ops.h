// The ops that put gradients into an accumulator of the core and take them out again.
#ifndef CONDACC_KERNELS_APPLY_TAKE_OPS_H_
#define CONDACC_KERNELS_APPLY_TAKE_OPS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/base/status.h"
#include "cc/kernels/core_resource.h"
#include "cc/kernels/status_conversion.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

inline absl::Status OutOfMemory(const AccumulatorResource& accumulator) {
  return absl::ResourceExhaustedError(
      absl::StrCat("Out of memory (accumulator '", accumulator.spec().name, "')"));
}

// Applies the gradient that Traits::ReadGradient(ctx, first_input, gradient) reads.
template <class Traits>
absl::Status ApplyGradient(tensorflow::OpKernelContext* ctx, CoreResource<Traits>& resource,
                           int64_t local_step, int first_input, bool* accepted) {
  try {
    typename Traits::Workspace workspace(ctx);
    typename Traits::Core::Gradient gradient;
    Traits::ReadGradient(ctx, first_input, &gradient);
    return ToAbsl(resource.core().Apply(local_step, std::move(gradient), workspace, accepted));
  } catch (const std::bad_alloc&) {
    return OutOfMemory(resource);
  }
}

// Inputs: handle, local_step, and the gradient. Output: whether it was accepted.
template <class Traits>
class ApplyOp : public tensorflow::OpKernel {
 public:
  explicit ApplyOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    constexpr int kGradient = 2;
    typename CoreResource<Traits>::Ptr resource;
    OP_REQUIRES_OK(ctx, CoreResource<Traits>::Lookup(ctx, dtype_, &resource));
    int64_t local_step = 0;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 1, "local_step", *resource, &local_step));
    // The output is allocated first: nothing may fail after the gradient has been added.
    tensorflow::Tensor* output = nullptr;
    if (ctx->output_required(0)) {
      OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({}), &output));
    }
    bool accepted = false;
    OP_REQUIRES_OK(ctx, ApplyGradient(ctx, *resource, local_step, kGradient, &accepted));
    if (output != nullptr) output->scalar<bool>()() = accepted;
  }
  // TensorFlow takes GPU kernels for inexpensive, and runs them one after the other in one thread.
  // A kernel that waits for the device must not hold up the others.
  bool IsExpensive() override {
    return Traits::Workspace::kBlocksOnDevice || OpKernel::IsExpensive();
  }

 private:
  tensorflow::DataType dtype_;
};

// Where a take puts what it gets. Lives as long as the take; its context is that of an op that
// has not called `done` yet, for as long as the take is not completed.
template <class Traits>
class TakeOutput {
 public:
  using Resource = CoreResource<Traits>;
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

  // A cancelled step must not take what nobody will get.
  bool is_cancelled() const { return cancellation_ != nullptr && cancellation_->IsCancelled(); }

  // Arranges for `cancel` to be called if the step is cancelled; false if it was already.
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

  // Completes the op, once: later calls do nothing. Reserve() must have succeeded.
  void Complete(const Status& status, Value* value) {
    Complete([&] { return value == nullptr ? ToAbsl(status) : SetOutputs(value); });
  }

  // There were too few gradients: outputs false, and empty values or zeros.
  void CompleteEmpty() {
    Complete([this] {
      SetTaken(false);
      return Traits::SetEmptyOutputs(ctx_, first_output(), *resource_, reserved_);
    });
  }

  // Fails the op with ResourceExhausted, unless it has been completed already.
  void CompleteOutOfMemory() {
    Complete([this] { return OutOfMemory(*resource_); });
  }

 private:
  template <class SetOutputsOrFail>
  void Complete(SetOutputsOrFail set_outputs_or_fail) noexcept {
    if (std::exchange(is_complete_, true)) return;
    // Not the variant that waits for callbacks: this may run inside one. A callback that comes
    // too late finds that the take does not wait any more.
    if (is_registered_) cancellation_->TryDeregisterCallback(token_);
    try {
      ctx_->SetStatus(set_outputs_or_fail());
    } catch (const std::bad_alloc&) {
      ctx_->SetStatus(absl::Status(absl::StatusCode::kResourceExhausted, ""));  // needs no memory
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

// What a take does if there are too few gradients: it waits, without a thread; it outputs that
// there were too few.
enum class IfTooFew { kWait, kTell };

// Takes the accumulated gradients.
template <class Traits, IfTooFew kIfTooFew>
class TakeOp : public tensorflow::AsyncOpKernel {
 public:
  explicit TakeOp(tensorflow::OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    typename CoreResource<Traits>::Ptr resource;
    OP_REQUIRES_OK_ASYNC(ctx, CoreResource<Traits>::Lookup(ctx, dtype_, &resource), done);
    int32_t num_required = 0;
    OP_REQUIRES_OK_ASYNC(ctx, ReadScalar(ctx, 1, "num_required", *resource, &num_required), done);
    std::shared_ptr<TakeOutput<Traits>> output;
    try {
      output = std::make_shared<TakeOutput<Traits>>(ctx, done, std::move(resource),
                                                    kIfTooFew == IfTooFew::kTell);
    } catch (const std::bad_alloc&) {
      ctx->SetStatus(absl::ResourceExhaustedError("Out of memory (a take of an accumulator)"));
      return done();
    }
    OP_REQUIRES_OK_ASYNC(ctx, output->Reserve(), done);
    try {
      Take(num_required, output);
    } catch (const std::bad_alloc&) {
      output->CompleteOutOfMemory();
    }
  }
  bool IsExpensive() override {
    return Traits::Workspace::kBlocksOnDevice || OpKernel::IsExpensive();
  }

 private:
  using Core = typename Traits::Core;

  static void Take(int32_t num_required, const std::shared_ptr<TakeOutput<Traits>>& output) {
    Core& core = output->resource().core();
    const auto take = std::make_shared<typename Core::Take>(
        num_required, [output](const Status& status, typename Core::Value* value) {
          output->Complete(status, value);
        });
    if (output->is_cancelled()) core.Cancel(take, output->workspace());
    if (core.RequestIfReady(take, output->workspace())) return;
    if (kIfTooFew == IfTooFew::kTell) return output->CompleteEmpty();
    const auto cancel = [output, take] {
      output->resource().core().Cancel(take, output->workspace());
    };
    if (!output->OnCancel(cancel)) cancel();
    core.Request(take, output, output->workspace());
  }

  tensorflow::DataType dtype_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_APPLY_TAKE_OPS_H_
