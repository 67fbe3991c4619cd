// One execution of a take op.
#ifndef CONDACC_KERNELS_ACCUMULATOR_TAKE_EXECUTION_H_
#define CONDACC_KERNELS_ACCUMULATOR_TAKE_EXECUTION_H_

#include <utility>

#include "absl/status/status.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource_of.h"
#include "cc/kernels/base/async_kernel.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

// An execution of a take op. It receives the result of the take, and lives as long as that.
template <class Traits>
class TakeExecution : public AsyncExecution {
 public:
  using Resource = AccumulatorResourceOf<Traits>;
  using Value = typename Traits::Core::Value;

  TakeExecution(tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done)
      : AsyncExecution(ctx, std::move(done)), workspace_(ctx) {}

  Resource& resource() { return *resource_; }
  typename Traits::Workspace& workspace() { return workspace_; }

  // Finds the accumulator; see AccumulatorResourceOf::Lookup().
  absl::Status Find(tensorflow::DataType dtype) {
    TF_RETURN_IF_ERROR(Resource::Lookup(ctx(), dtype, &resource_));
    set_where(resource_->where());
    return absl::OkStatus();
  }

  // Allocates the outputs other than the value before anything is taken, so that a refused
  // allocation loses no gradients. If `tells_taken`, the first output says whether anything was
  // taken.
  absl::Status Reserve(bool tells_taken) {
    if (tells_taken) {
      TF_RETURN_IF_ERROR(ctx()->allocate_output(0, tensorflow::TensorShape({}), &taken_));
    }
    return Traits::ReserveOutputs(ctx(), &reserved_);
  }

  // Ends the op with the value or an error. Later calls do nothing. Reserve() must have succeeded.
  void Complete(const Status& status, Value* value) {
    // The global step has changed since the take was requested. Nothing else has this code.
    if (tells_taken() && status.code() == StatusCode::kFailedPrecondition) return CompleteEmpty();
    AsyncExecution::Complete([&] { return value == nullptr ? ToAbsl(status) : SetOutputs(value); });
  }
  using AsyncExecution::Complete;

  // Ends the op for too few gradients or for another step: outputs false, and empty values or
  // zeros.
  void CompleteEmpty() {
    AsyncExecution::Complete([this] {
      SetTaken(false);
      return Traits::SetEmptyOutputs(ctx(), first_output(), *resource_, reserved_);
    });
  }

 private:
  bool tells_taken() const { return taken_ != nullptr; }
  int first_output() const { return tells_taken() ? 1 : 0; }

  absl::Status SetOutputs(Value* value) {
    SetTaken(true);
    return Traits::SetOutputs(ctx(), first_output(), *resource_, reserved_, std::move(*value));
  }

  void SetTaken(bool taken) {
    if (tells_taken()) taken_->template scalar<bool>()() = taken;
  }

  typename Resource::Ptr resource_;
  typename Traits::Workspace workspace_;
  tensorflow::Tensor* taken_ = nullptr;  // The bool output of a try-take; null for other takes.
  tensorflow::Tensor reserved_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_TAKE_EXECUTION_H_
