// Dense gradients between TensorFlow and the core.
#ifndef CONDACC_KERNELS_ACCUMULATOR_DENSE_TRAITS_H_
#define CONDACC_KERNELS_ACCUMULATOR_DENSE_TRAITS_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cc/core/dense/dense_accumulator.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

// The traits (see AccumulatorResourceOf) of dense accumulators. `DevicePolicy` is that of the
// device where the gradients lie.
template <class DevicePolicy>
struct DenseTraits {
  using Policy = DevicePolicy;
  using Core = DenseAccumulator;
  using Workspace = typename Policy::DenseWorkspace;
  static constexpr char kKind[] = "dense";
  static constexpr bool kWaitsForDevice = false;

  static DenseOptions SumOptions(const AccumulatorSpec& spec) {
    DenseOptions options;
    options.type = ElementTypeOf(spec.dtype);
    options.shape = ShapeOf(spec.shape);
    options.mean = spec.reduction_type == "MEAN";
    options.budget = &Policy::Budget();
    options.max_inputs = Policy::kMaxInputs;
    if (!Policy::kAddsSmallAtOnce) {
      options.small_bytes = 0;
      options.adds_ahead = false;
    }
    return options;
  }

  // Reads the gradient from the input `first`.
  static void ReadGradient(tensorflow::OpKernelContext* ctx, int first,
                           typename Core::Gradient* gradient) {
    const tensorflow::Tensor& input = ctx->input(first);
    gradient->shape = ShapeOf(input.shape());
    gradient->owned = OwnsInput(ctx, first);
    gradient->buffer = BufferOf(input);
  }

  // Allocates, before the take, the outputs other than the value. There are none.
  static absl::Status ReserveOutputs(tensorflow::OpKernelContext*, tensorflow::Tensor*) {
    return absl::OkStatus();
  }

  static absl::Status SetOutputs(tensorflow::OpKernelContext* ctx, int first,
                                 const AccumulatorResource& resource,
                                 const tensorflow::Tensor& /*reserved*/,
                                 typename Core::Value value) {
    const ElementType type = ElementTypeOf(resource.spec().dtype);
    ctx->set_output(first, TensorOf(value.buffer, type, value.shape));
    return absl::OkStatus();
  }

  // Outputs zeros of the accumulator's shape, with 0 for unknown dimensions.
  static absl::Status SetEmptyOutputs(tensorflow::OpKernelContext* ctx, int first,
                                      const AccumulatorResource& resource,
                                      const tensorflow::Tensor& /*reserved*/) {
    tensorflow::TensorShape shape;
    const auto& known = resource.spec().shape;
    for (int i = 0; i < known.dims(); ++i) shape.AddDim(std::max<int64_t>(known.dim_size(i), 0));
    tensorflow::Tensor* zeros = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(first, shape, &zeros));
    return ToAbsl(Workspace(ctx).Clear(zeros->data(), zeros->TotalBytes()));
  }
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_DENSE_TRAITS_H_
