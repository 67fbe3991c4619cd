// Ops that wait without blocking a thread.
#ifndef CONDACC_KERNELS_BASE_ASYNC_KERNEL_H_
#define CONDACC_KERNELS_BASE_ASYNC_KERNEL_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "cc/kernels/base/errors.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// One execution of an op that may end after its kernel has returned, in any thread. The callbacks
// that can end it keep it alive. Its context is valid until it ends.
class AsyncExecution {
 public:
  AsyncExecution(tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done)
      : ctx_(ctx), done_(std::move(done)), cancellation_(ctx->cancellation_manager()) {}
  AsyncExecution(const AsyncExecution&) = delete;
  AsyncExecution& operator=(const AsyncExecution&) = delete;

  tensorflow::OpKernelContext* ctx() const { return ctx_; }

  // Returns whether the step was cancelled.
  bool is_cancelled() const { return cancellation_ != nullptr && cancellation_->IsCancelled(); }

  // Registers `cancel` to be called if the step is cancelled. Returns false if the step was
  // cancelled already, and does not call `cancel` then. It must be called *before* the wait begins,
  // because of these races:
  // - As soon as the wait has begun, any thread may call Complete(), which reads what OnCancel()
  //   writes. The context and the cancellation manager may be gone afterwards. The lock under which
  //   the wait begins makes these writes visible to that thread.
  // - The step may be cancelled before the wait begins. If that happens before the registration,
  //   the registration fails; if after it, `cancel` runs. Either way, `cancel` must mark the wait
  //   so that it ends as soon as it begins. So no cancellation is lost.
  // - `cancel` may run in another thread between the registration and the beginning of the wait. It
  //   cannot end a wait that has not begun, so no other thread calls Complete() meanwhile.
  bool OnCancel(std::function<void()> cancel) {
    if (cancellation_ == nullptr) return true;
    token_ = cancellation_->get_cancellation_token();
    is_registered_ = cancellation_->RegisterCallback(token_, std::move(cancel));
    return is_registered_;
  }

  // Ends the op with the status that set_outputs() returns, unless it has ended already. Errors
  // name where().
  template <class SetOutputs>
  void Complete(SetOutputs set_outputs) noexcept {
    if (std::exchange(is_complete_, true)) return;
    // TryDeregisterCallback() does not wait for callbacks that are running, as DeregisterCallback()
    // does: this may run inside a callback of the same manager, which would wait for itself. A
    // callback that runs too late finds that the op no longer waits, and does nothing.
    if (is_registered_) cancellation_->TryDeregisterCallback(token_);
    ctx_->SetStatus(Named(where(), set_outputs));
    // The op is complete. An allocation that fails in the executor afterwards cannot be reported.
    IfThereIsMemory(done_);
  }

 private:
  // Returns what an error is about, such as "accumulator 'w'", or "" before the resource is found.
  virtual absl::string_view where() const = 0;

  tensorflow::OpKernelContext* const ctx_;
  const tensorflow::AsyncOpKernel::DoneCallback done_;
  tensorflow::CancellationManager* const cancellation_;
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  bool is_registered_ = false;
  bool is_complete_ = false;
};

// A kernel whose executions are objects of the class `Op`, which derives from AsyncExecution.
// `Base` is AsyncOpKernel if an execution may wait for other ops. If executions end at once, or as
// soon as another thread has finished some work, it is OpKernel, because the executor runs the
// successors of an AsyncOpKernel in other threads.
template <class Op, class Base = tensorflow::AsyncOpKernel>
class AsyncKernel : public Base {
 public:
  using Base::Base;

  // Overrides the method of an AsyncOpKernel.
  void ComputeAsync(tensorflow::OpKernelContext* ctx,
                    tensorflow::AsyncOpKernel::DoneCallback done) {
    std::shared_ptr<Op> op;
    const absl::Status status = OrOutOfMemory([&] {
      op = std::make_shared<Op>(ctx, done);
      return Begin(op);
    });
    if (status.ok()) return;
    if (op != nullptr) return op->Complete([&] { return status; });
    ctx->SetStatus(status);
    done();
  }

  // The Compute() of an AsyncOpKernel does the same.
  void Compute(tensorflow::OpKernelContext* ctx) override {
    absl::Notification done;
    ComputeAsync(ctx, [&done] { done.Notify(); });
    done.WaitForNotification();
  }

 private:
  // Begins the wait of `op`, which ends at once or later. If this throws or returns an error, the
  // wait has not begun, and the op ends now.
  virtual absl::Status Begin(const std::shared_ptr<Op>& op) = 0;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_ASYNC_KERNEL_H_
