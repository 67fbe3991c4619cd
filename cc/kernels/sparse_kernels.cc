// Kernels of the sparse accumulator.
#define EIGEN_USE_THREADS
#include <algorithm>
#include <cstdint>
#include <utility>

#include "cc/core/accumulator.h"
#include "cc/core/sparse_sum.h"
#include "cc/kernels/apply_take_ops.h"
#include "cc/kernels/core_resource.h"
#include "cc/kernels/core_types.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::DT_INT32;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Works with the memory and the threads of the op that `ctx` belongs to. Only what allocates needs
// the op to be running.
class CpuSparseWorkspace : public SparseWorkspace<TensorBlock> {
 public:
  explicit CpuSparseWorkspace(OpKernelContext* ctx) : ctx_(ctx), threads_(DeviceThreads(ctx)) {}

  Status Allocate(ElementType type, const Shape& shape, TensorBlock* block) override {
    return AllocateBlock(ctx_, type, shape, block);
  }
  Status AllocateInner(ElementType type, const Shape& shape, TensorBlock* block) override {
    return AllocateInnerBlock(ctx_, type, shape, block);
  }
  const ParallelFor& parallel_for() const override { return threads_; }

 private:
  OpKernelContext* const ctx_;
  const ParallelFor threads_;
};

SparseReduction ReductionOf(const std::string& reduction_type) {
  if (reduction_type == "SUM") return SparseReduction::kSum;
  if (reduction_type == "GLOBAL_MEAN") return SparseReduction::kGlobalMean;
  return SparseReduction::kMean;
}

struct SparseTraits {
  using Core = Accumulator<SparseSum<TensorBlock>>;
  using Workspace = CpuSparseWorkspace;
  static constexpr char kKind[] = "sparse";

  static SparseOptions<TensorBlock> SumOptions(const AccumulatorSpec& spec) {
    SparseOptions<TensorBlock> options;
    options.type = ElementTypeOf(spec.dtype);
    options.shape = ShapeOf(spec.shape);
    options.reduction = ReductionOf(spec.reduction_type);
    return options;
  }

  static void ReadGradient(OpKernelContext* ctx, Core::Gradient* gradient) {
    constexpr int kIndices = 2;
    constexpr int kValues = 3;
    constexpr int kShape = 4;
    constexpr int64_t kMoreThanAnyRank = 255;
    gradient->shapes.indices = ShapeOf(ctx->input(kIndices).shape());
    gradient->shapes.values = ShapeOf(ctx->input(kValues).shape());
    const Tensor& shape = ctx->input(kShape);
    gradient->shapes.has_dense = shape.NumElements() > 0;
    gradient->shapes.dense_form = ShapeOf(shape.shape());
    const auto dims = shape.flat<int64_t>();
    for (int64_t i = 0; i < std::min(shape.NumElements(), kMoreThanAnyRank); ++i) {
      gradient->shapes.dense.AddDim(dims(i));
    }
    gradient->indices_are_int32 = ctx->input_dtype(kIndices) == DT_INT32;
    gradient->owns_indices = OwnsInput(ctx, kIndices);
    gradient->owns_values = OwnsInput(ctx, kValues);
    gradient->indices = TensorBlock(ctx->input(kIndices));
    gradient->values = TensorBlock(ctx->input(kValues));
  }

  static absl::Status SetOutputs(OpKernelContext* ctx, int first,
                                 const AccumulatorResource& resource, Core::Value value) {
    ctx->set_output(first, value.indices.tensor());
    ctx->set_output(first + 1, value.values.tensor());
    return SetDenseShape(ctx, first + 2, resource, value.values.tensor().shape());
  }

  // No rows, as wide as is known.
  static absl::Status SetEmptyOutputs(OpKernelContext* ctx, int first,
                                      const AccumulatorResource& resource) {
    TensorShape values_shape({0});
    const auto& known = resource.spec().shape;
    for (int i = 1; i < known.dims(); ++i) {
      values_shape.AddDim(std::max<int64_t>(known.dim_size(i), 0));
    }
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(first, TensorShape({0}), &output));
    TF_RETURN_IF_ERROR(ctx->allocate_output(first + 1, values_shape, &output));
    return SetDenseShape(ctx, first + 2, resource, values_shape);
  }

 private:
  // That of the tensor whose rows the values are: -1 for their number if the constructor's shape
  // does not tell it.
  static absl::Status SetDenseShape(OpKernelContext* ctx, int index,
                                    const AccumulatorResource& resource,
                                    const TensorShape& values) {
    const auto& known = resource.spec().shape;
    Tensor* shape = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(index, TensorShape({values.dims()}), &shape));
    auto dims = shape->vec<int64_t>();
    dims(0) = known.dims() >= 1 ? known.dim_size(0) : -1;
    for (int i = 1; i < values.dims(); ++i) dims(i) = values.dim_size(i);
    return absl::OkStatus();
  }
};

using SparseAccumulatorOp = CoreHandleOp<SparseTraits>;
using SparseApplyOp = ApplyOp<SparseTraits>;
using SparseTakeOp = TakeOp<SparseTraits, /*kMayWait=*/true>;
using SparseTryTakeOp = TakeOp<SparseTraits, /*kMayWait=*/false>;

REGISTER_KERNEL_BUILDER(Name("Condacc>SparseAccumulator").Device(DEVICE_CPU), SparseAccumulatorOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApply").Device(DEVICE_CPU), SparseApplyOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTake").Device(DEVICE_CPU), SparseTakeOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTryTake").Device(DEVICE_CPU), SparseTryTakeOp);

}  // namespace
}  // namespace condacc
