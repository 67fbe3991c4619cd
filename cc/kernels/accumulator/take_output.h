// The execution of a take op.
#ifndef CONDACC_KERNELS_ACCUMULATOR_TAKE_OUTPUT_H_
#define CONDACC_KERNELS_ACCUMULATOR_TAKE_OUTPUT_H_

#include <memory>

#include "absl/status/status.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/gradient_io.h"
#include "cc/kernels/base/async_op.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

// An execution of a take op. It receives the result of the take, and lives as long as that.
class TakeOutput : public AsyncOp {
 public:
  using AsyncOp::AsyncOp;

  AccumulatorResource& resource() { return *resource_; }
  Workspace& workspace() { return *workspace_; }

  // Finds the accumulator; see LookupAccumulator().
  absl::Status Find(const AccumulatorKind& kind, tensorflow::DataType dtype) {
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx(), kind, dtype, &resource_));
    workspace_ = resource_->NewWorkspace(ctx());
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
    return ReserveOutputs(ctx(), spec().kind->is_sparse, &reserved_);
  }

  // Ends the op with the value or an error. Later calls do nothing. Reserve() must have succeeded.
  void Complete(const Status& status, Value* value) {
    // The global step has changed since the take was requested.
    if (tells_taken() && status.code() == StatusCode::kFailedPrecondition) return CompleteEmpty();
    AsyncOp::Complete([&] {
      if (value == nullptr) return ToAbsl(status);
      SetTaken(true);
      SetOutputs(ctx(), first_output(), spec(), reserved_, *value);
      return absl::OkStatus();
    });
  }
  using AsyncOp::Complete;

  // Ends the op for too few gradients or for another step: outputs false, and empty values or
  // zeros.
  void CompleteEmpty() {
    AsyncOp::Complete([this] {
      SetTaken(false);
      return SetEmptyOutputs(ctx(), first_output(), spec(), reserved_, *workspace_);
    });
  }

 private:
  const AccumulatorSpec& spec() const { return resource_->spec(); }
  bool tells_taken() const { return taken_ != nullptr; }
  int first_output() const { return tells_taken() ? 1 : 0; }

  void SetTaken(bool taken) {
    if (tells_taken()) taken_->scalar<bool>()() = taken;
  }

  AccumulatorPtr resource_;
  std::unique_ptr<Workspace> workspace_;
  tensorflow::Tensor* taken_ = nullptr;  // The bool output of a try-take; null for other takes.
  tensorflow::Tensor reserved_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_TAKE_OUTPUT_H_
