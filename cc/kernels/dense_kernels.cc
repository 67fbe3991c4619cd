// Kernels of the dense accumulator.
#define EIGEN_USE_THREADS
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/core/accumulator.h"
#include "cc/core/dense_sum.h"
#include "cc/kernels/apply_take_ops.h"
#include "cc/kernels/core_resource.h"
#include "cc/kernels/core_types.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Works with the memory and the threads of the op that `ctx` belongs to. Only Allocate() needs the
// op to be running.
class CpuDenseWorkspace : public DenseWorkspace<TensorBlock> {
 public:
  explicit CpuDenseWorkspace(OpKernelContext* ctx) : ctx_(ctx), threads_(DeviceThreads(ctx)) {}

  Status Allocate(ElementType type, const Shape& shape, TensorBlock* block) override {
    return AllocateBlock(ctx_, type, shape, block);
  }
  void Sum(const DenseSumArgs& args) override { SumDense(args, threads_); }

 private:
  OpKernelContext* const ctx_;
  const ParallelFor threads_;
};

struct DenseTraits {
  using Core = Accumulator<DenseSum<TensorBlock>>;
  using Workspace = CpuDenseWorkspace;
  static constexpr char kKind[] = "dense";

  static DenseOptions SumOptions(const AccumulatorSpec& spec) {
    DenseOptions options;
    options.type = ElementTypeOf(spec.dtype);
    options.shape = ShapeOf(spec.shape);
    options.mean = spec.reduction_type == "MEAN";
    return options;
  }

  static void ReadGradient(OpKernelContext* ctx, Core::Gradient* gradient) {
    constexpr int kGradient = 2;
    const Tensor& input = ctx->input(kGradient);
    gradient->shape = ShapeOf(input.shape());
    gradient->owned = OwnsInput(ctx, kGradient);
    gradient->block = TensorBlock(input);
  }

  static absl::Status SetOutputs(OpKernelContext* ctx, int first, const AccumulatorResource&,
                                 Core::Value value) {
    ctx->set_output(first, value.block.tensor());
    return absl::OkStatus();
  }

  // Zeros of the accumulator's shape, with 0 for what is unknown of it.
  static absl::Status SetEmptyOutputs(OpKernelContext* ctx, int first,
                                      const AccumulatorResource& resource) {
    TensorShape shape;
    const auto& known = resource.spec().shape;
    for (int i = 0; i < known.dims(); ++i) shape.AddDim(std::max<int64_t>(known.dim_size(i), 0));
    Tensor* zeros = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(first, shape, &zeros));
    if (zeros->TotalBytes() > 0) std::memset(zeros->data(), 0, zeros->TotalBytes());
    return absl::OkStatus();
  }
};

using DenseAccumulatorOp = CoreHandleOp<DenseTraits>;
using DenseApplyOp = ApplyOp<DenseTraits>;
using DenseTakeOp = TakeOp<DenseTraits, /*kMayWait=*/true>;
using DenseTryTakeOp = TakeOp<DenseTraits, /*kMayWait=*/false>;

REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_CPU), DenseAccumulatorOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply").Device(DEVICE_CPU), DenseApplyOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTake").Device(DEVICE_CPU), DenseTakeOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake").Device(DEVICE_CPU), DenseTryTakeOp);

}  // namespace
}  // namespace condacc
