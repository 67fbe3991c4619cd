// Sparse gradients between TensorFlow and the core.
#ifndef CONDACC_KERNELS_ACCUMULATOR_SPARSE_TRAITS_H_
#define CONDACC_KERNELS_ACCUMULATOR_SPARSE_TRAITS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/sparse/spare_buffers.h"
#include "cc/core/sparse/sparse_accumulator.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace condacc {

inline SparseReduction ReductionOf(const std::string& reduction_type) {
  if (reduction_type == "SUM") return SparseReduction::kSum;
  if (reduction_type == "GLOBAL_MEAN") return SparseReduction::kGlobalMean;
  return SparseReduction::kMean;
}

// The traits (see AccumulatorResourceOf) of sparse accumulators. `DevicePolicy` is that of the
// device where the gradients lie.
template <class DevicePolicy>
struct SparseTraits {
  using Policy = DevicePolicy;
  using Core = Accumulator<SparseSum<typename Policy::Rows>>;
  using Workspace = typename Policy::SparseWorkspace;
  static constexpr char kKind[] = "sparse";
  static constexpr bool kWaitsForDevice = Policy::kMergesWaitForDevice;

  static SparseOptions SumOptions(const AccumulatorSpec& spec) {
    SparseOptions options;
    options.type = ElementTypeOf(spec.dtype);
    options.shape = ShapeOf(spec.shape);
    options.reduction = ReductionOf(spec.reduction_type);
    options.budget = &Policy::Budget();
    options.spares = std::make_shared<SpareBuffers>(size_t{64} << 20, options.budget);
    // Folds that wait for the device should be few.
    if (kWaitsForDevice) options.fold_bytes = size_t{1} << 30;
    return options;
  }

  // Reads the gradient from three inputs, beginning with `first`: indices [n], values [n, d1, ...]
  // and the dense shape [rank], which may be empty.
  static void ReadGradient(tensorflow::OpKernelContext* ctx, int first,
                           typename Core::Gradient* gradient) {
    constexpr int64_t kMoreThanAnyRank = 255;
    const int values = first + 1;
    gradient->shapes.indices = ShapeOf(ctx->input(first).shape());
    gradient->shapes.values = ShapeOf(ctx->input(values).shape());
    const tensorflow::Tensor& shape = ctx->input(first + 2);
    gradient->shapes.has_dense = shape.NumElements() > 0;
    const auto dims = shape.flat<int64_t>();
    for (int64_t i = 0; i < std::min(shape.NumElements(), kMoreThanAnyRank); ++i) {
      gradient->shapes.dense.AddDim(dims(i));
    }
    gradient->indices_are_int32 = ctx->input_dtype(first) == tensorflow::DT_INT32;
    gradient->owns_indices = OwnsInput(ctx, first);
    gradient->owns_values = OwnsInput(ctx, values);
    gradient->indices = BufferOf(ctx->input(first));
    gradient->values = BufferOf(ctx->input(values));
  }

  // Allocates the output `shape` before the take. Its size is known only afterwards, so there is
  // room for the highest rank.
  static absl::Status ReserveOutputs(tensorflow::OpKernelContext* ctx,
                                     tensorflow::Tensor* reserved) {
    tensorflow::AllocatorAttributes in_host_memory;
    in_host_memory.set_on_host(true);
    const tensorflow::TensorShape as_long_as_any({tensorflow::TensorShape::MaxDimensions()});
    return ctx->allocate_temp(tensorflow::DT_INT64, as_long_as_any, reserved, in_host_memory);
  }

  static absl::Status SetOutputs(tensorflow::OpKernelContext* ctx, int first,
                                 const AccumulatorResource& resource,
                                 const tensorflow::Tensor& reserved, typename Core::Value value) {
    Shape rows;
    rows.AddDim(value.shape.dim(0));
    const ElementType type = ElementTypeOf(resource.spec().dtype);
    const tensorflow::Tensor values = TensorOf(value.values, type, value.shape);
    ctx->set_output(first, TensorOf(value.indices, ElementType::kInt64, rows));
    ctx->set_output(first + 1, values);
    SetDenseShape(ctx, first + 2, resource, reserved, values.shape());
    return absl::OkStatus();
  }

  // Outputs no rows: indices [0] and values [0, d1, ...], with 0 for unknown dimensions.
  static absl::Status SetEmptyOutputs(tensorflow::OpKernelContext* ctx, int first,
                                      const AccumulatorResource& resource,
                                      const tensorflow::Tensor& reserved) {
    tensorflow::TensorShape values_shape({0});
    const auto& known = resource.spec().shape;
    for (int i = 1; i < known.dims(); ++i) {
      values_shape.AddDim(std::max<int64_t>(known.dim_size(i), 0));
    }
    tensorflow::Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(first, tensorflow::TensorShape({0}), &output));
    TF_RETURN_IF_ERROR(ctx->allocate_output(first + 1, values_shape, &output));
    SetDenseShape(ctx, first + 2, resource, reserved, values_shape);
    return absl::OkStatus();
  }

 private:
  // Outputs the shape of the tensor whose rows the values are, with -1 as the number of rows if the
  // constructor's shape does not give it.
  static void SetDenseShape(tensorflow::OpKernelContext* ctx, int index,
                            const AccumulatorResource& resource, const tensorflow::Tensor& reserved,
                            const tensorflow::TensorShape& values) {
    const auto& known = resource.spec().shape;
    tensorflow::Tensor shape = reserved.Slice(0, values.dims());
    auto dims = shape.vec<int64_t>();
    dims(0) = known.dims() >= 1 ? known.dim_size(0) : -1;
    for (int i = 1; i < values.dims(); ++i) dims(i) = values.dim_size(i);
    ctx->set_output(index, shape);
  }
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_SPARSE_TRAITS_H_
