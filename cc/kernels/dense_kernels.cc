// Kernels of the dense accumulator.
#define EIGEN_USE_THREADS
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/kernels/accumulator_handle_op.h"
#include "cc/kernels/accumulator_resource.h"
#include "cc/kernels/dense_resource.h"
#include "cc/kernels/status_conversion.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
using tensorflow::DataType;
using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

using DensePtr = tensorflow::core::RefCountPtr<DenseResource>;

// Finds the dense accumulator of input 0 and checks that it has the dtype the op works with.
absl::Status LookupDense(OpKernelContext* ctx, DataType dtype, DensePtr* dense) {
  AccumulatorPtr accumulator;
  TF_RETURN_IF_ERROR(LookupAccumulator(ctx, &accumulator));
  const AccumulatorSpec& spec = accumulator->spec();
  if (spec.kind != DenseResource::kKind) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected a dense accumulator, got ", spec.ToString()));
  }
  if (spec.dtype != dtype) {
    return accumulator->Invalid(absl::StrCat("Dtype mismatch: expected ",
                                             tensorflow::DataTypeString(spec.dtype), ", got ",
                                             tensorflow::DataTypeString(dtype)));
  }
  dense->reset(static_cast<DenseResource*>(accumulator.release()));
  return absl::OkStatus();
}

absl::Status OutOfMemory(const AccumulatorResource& accumulator) {
  return absl::ResourceExhaustedError(
      absl::StrCat("Out of memory (accumulator '", accumulator.spec().name, "')"));
}

class DenseAccumulatorOp : public AccumulatorHandleOp {
 public:
  explicit DenseAccumulatorOp(OpKernelConstruction* ctx) : AccumulatorHandleOp(ctx) {
    spec_.kind = DenseResource::kKind;
  }

 private:
  AccumulatorResource* NewResource(const AccumulatorSpec& spec) const override {
    return new DenseResource(spec);
  }
};

class DenseApplyOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    DensePtr dense;
    OP_REQUIRES_OK(ctx, LookupDense(ctx, ctx->input_dtype(kGradient), &dense));
    int64_t local_step = 0;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 1, "local_step", *dense, &local_step));
    bool accepted = false;
    absl::Status status;
    try {
      CpuDenseWorkspace workspace(ctx);
      status = ToAbsl(dense->core().Apply(local_step, GradientOf(ctx), workspace, &accepted));
    } catch (const std::bad_alloc&) {
      status = OutOfMemory(*dense);
    }
    OP_REQUIRES_OK(ctx, status);
    if (!ctx->output_required(0)) return;
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<bool>()() = accepted;
  }

 private:
  static constexpr int kGradient = 2;

  // The gradient is owned if this op alone refers to its memory, and that is not much more than
  // the gradient itself: a slice would keep the whole of its parent.
  static DenseGradient<TensorBlock> GradientOf(OpKernelContext* ctx) {
    const Tensor& input = ctx->input(kGradient);
    DenseGradient<TensorBlock> gradient;
    gradient.shape = ShapeOf(input.shape());
    const std::unique_ptr<Tensor> forwarded = ctx->forward_input(
        kGradient, OpKernelContext::Params::kNoReservation, input.dtype(), input.shape(),
        ctx->input_memory_type(kGradient), tensorflow::AllocatorAttributes());
    gradient.owned = forwarded != nullptr && input.IsAligned() &&
                     RootBytes(input) <= 2 * input.TotalBytes() + kSmallBytes;
    gradient.block = TensorBlock(input);
    return gradient;
  }

  static constexpr size_t kSmallBytes = 4096;

  static size_t RootBytes(const Tensor& tensor) {
    const tensorflow::TensorBuffer* buffer = tensorflow::DMAHelper::buffer(&tensor);
    return buffer == nullptr ? 0
                             : const_cast<tensorflow::TensorBuffer*>(buffer)->root_buffer()->size();
  }
};

// Where a take puts what it gets. Lives as long as the take; its context is that of an op that
// has not called `done` yet, for as long as the take is not completed.
class TakeOutput {
 public:
  TakeOutput(OpKernelContext* ctx, AsyncOpKernel::DoneCallback done, DensePtr dense,
             bool tells_taken)
      : ctx_(ctx),
        done_(std::move(done)),
        dense_(std::move(dense)),
        tells_taken_(tells_taken),
        cancellation_(ctx->cancellation_manager()),
        workspace_(ctx) {}

  DenseResource& dense() { return *dense_; }
  CpuDenseWorkspace& workspace() { return workspace_; }

  // Arranges for `cancel` to be called if the step is cancelled; false if it was already.
  bool OnCancel(std::function<void()> cancel) {
    if (cancellation_ == nullptr) return true;
    token_ = cancellation_->get_cancellation_token();
    is_registered_ = cancellation_->RegisterCallback(token_, std::move(cancel));
    return is_registered_;
  }

  void Complete(const Status& status, DenseSum<TensorBlock>::Value* value) {
    // Not the variant that waits for callbacks: this may run inside one. A callback that comes
    // too late finds that the take does not wait any more.
    if (is_registered_) cancellation_->TryDeregisterCallback(token_);
    if (value != nullptr) {
      SetTaken(true);
      ctx_->set_output(tells_taken_ ? 1 : 0, value->block.tensor());
      value->block = TensorBlock();
    } else {
      ctx_->SetStatus(ToAbsl(status));
    }
    done_();
  }

  // There were too few gradients: outputs false and zeros, of the accumulator's shape with 0 for
  // what is unknown of it.
  void CompleteEmpty() {
    SetTaken(false);
    TensorShape shape;
    const auto& known = dense_->spec().shape;
    for (int i = 0; i < known.dims(); ++i) shape.AddDim(std::max<int64_t>(known.dim_size(i), 0));
    Tensor* zeros = nullptr;
    const absl::Status status = ctx_->allocate_output(1, shape, &zeros);
    if (status.ok() && zeros->TotalBytes() > 0) {
      std::memset(zeros->data(), 0, zeros->TotalBytes());
    }
    ctx_->SetStatus(status);
    done_();
  }

 private:
  void SetTaken(bool taken) {
    if (!tells_taken_) return;
    Tensor flag(tensorflow::DT_BOOL, TensorShape({}));
    flag.scalar<bool>()() = taken;
    ctx_->set_output(0, flag);
  }

  OpKernelContext* const ctx_;
  const AsyncOpKernel::DoneCallback done_;
  const DensePtr dense_;
  const bool tells_taken_;
  CancellationManager* const cancellation_;
  CpuDenseWorkspace workspace_;
  tensorflow::CancellationToken token_ = CancellationManager::kInvalidToken;
  bool is_registered_ = false;
};

// Takes the accumulated gradients. `kMayWait` takes wait for enough of them, without a thread;
// the others say whether there were enough.
template <bool kMayWait>
class DenseTakeOp : public AsyncOpKernel {
 public:
  explicit DenseTakeOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    DensePtr dense;
    OP_REQUIRES_OK_ASYNC(ctx, LookupDense(ctx, dtype_, &dense), done);
    int32_t num_required = 0;
    OP_REQUIRES_OK_ASYNC(ctx, ReadScalar(ctx, 1, "num_required", *dense, &num_required), done);
    try {
      Take(num_required, std::make_shared<TakeOutput>(ctx, done, std::move(dense), !kMayWait));
    } catch (const std::bad_alloc&) {
      ctx->SetStatus(
          absl::ResourceExhaustedError("Out of memory for another take of an accumulator"));
      done();
    }
  }

 private:
  using Core = DenseResource::Core;

  static void Take(int32_t num_required, const std::shared_ptr<TakeOutput>& output) {
    Core& core = output->dense().core();
    const auto take = std::make_shared<Core::Take>(
        num_required,
        [output](const Status& status, Core::Value* value) { output->Complete(status, value); });
    if (core.RequestIfReady(take, output->workspace())) return;
    if (!kMayWait) {
      output->CompleteEmpty();
      return;
    }
    const auto cancel = [output, take] {
      output->dense().core().Cancel(take, output->workspace());
    };
    if (!output->OnCancel(cancel)) cancel();
    core.Request(take, output, output->workspace());
  }

  DataType dtype_;
};

REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_CPU), DenseAccumulatorOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply").Device(DEVICE_CPU), DenseApplyOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTake").Device(DEVICE_CPU), DenseTakeOp<true>);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake").Device(DEVICE_CPU), DenseTakeOp<false>);

}  // namespace
}  // namespace condacc
