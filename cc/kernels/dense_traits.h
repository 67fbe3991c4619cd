// Dense gradients between TensorFlow and the core.
#ifndef CONDACC_KERNELS_DENSE_TRAITS_H_
#define CONDACC_KERNELS_DENSE_TRAITS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/core/accumulator.h"
#include "cc/core/dense_sum.h"
#include "cc/kernels/accumulator_resource.h"
#include "cc/kernels/core_types.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// Works with the memory and the threads of the op that `ctx` belongs to. Only Allocate() needs the
// op to be running.
class CpuDenseWorkspace : public DenseWorkspace<TensorBlock> {
 public:
  explicit CpuDenseWorkspace(tensorflow::OpKernelContext* ctx)
      : ctx_(ctx), threads_(DeviceThreads(ctx)) {}

  Status Allocate(ElementType type, const Shape& shape, TensorBlock* block) override {
    return AllocateBlock(ctx_, type, shape, block);
  }
  void Sum(const DenseSumArgs& args) override { SumDense(args, threads_); }

 private:
  tensorflow::OpKernelContext* const ctx_;
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

  // Of the input `first`.
  static void ReadGradient(tensorflow::OpKernelContext* ctx, int first, Core::Gradient* gradient) {
    const tensorflow::Tensor& input = ctx->input(first);
    gradient->shape = ShapeOf(input.shape());
    gradient->owned = OwnsInput(ctx, first);
    gradient->block = TensorBlock(input);
  }

  static absl::Status SetOutputs(tensorflow::OpKernelContext* ctx, int first,
                                 const AccumulatorResource&, Core::Value value) {
    ctx->set_output(first, value.block.tensor());
    return absl::OkStatus();
  }

  // Zeros of the accumulator's shape, with 0 for what is unknown of it.
  static absl::Status SetEmptyOutputs(tensorflow::OpKernelContext* ctx, int first,
                                      const AccumulatorResource& resource) {
    tensorflow::TensorShape shape;
    const auto& known = resource.spec().shape;
    for (int i = 0; i < known.dims(); ++i) shape.AddDim(std::max<int64_t>(known.dim_size(i), 0));
    tensorflow::Tensor* zeros = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(first, shape, &zeros));
    if (zeros->TotalBytes() > 0) std::memset(zeros->data(), 0, zeros->TotalBytes());
    return absl::OkStatus();
  }
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_DENSE_TRAITS_H_
