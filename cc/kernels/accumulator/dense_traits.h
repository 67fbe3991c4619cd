// Dense gradients between TensorFlow and the core.
#ifndef CONDACC_KERNELS_ACCUMULATOR_DENSE_TRAITS_H_
#define CONDACC_KERNELS_ACCUMULATOR_DENSE_TRAITS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "cc/core/base/hold_budget.h"
#include "cc/core/dense/dense_accumulator.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/base/status_conversion.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

// Works with the memory and the threads of the op that `ctx` belongs to. Only Allocate() requires
// that the op has not ended.
class CpuDenseWorkspace : public DenseWorkspace {
 public:
  explicit CpuDenseWorkspace(tensorflow::OpKernelContext* ctx)
      : ctx_(ctx), threads_(DeviceThreads(ctx)) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    return AllocateBuffer(ctx_, type, shape, buffer);
  }
  void Add(const DenseAddArgs& args) override { AddDense(args, threads_); }

  static Status CheckDevice(tensorflow::OpKernelContext*) { return Status(); }
  Status Clear(void* to, size_t num_bytes) {
    if (num_bytes > 0) std::memset(to, 0, num_bytes);
    return Status();
  }
  // The budget of pending gradients.
  static HoldBudget& Budget() { return HoldBudget::Host(); }
  // If true, small gradients, which are cheap to add, are added as soon as they come.
  static constexpr bool kAddsSmallAtOnce = true;
  // The number of gradients that Add() can add to another one.
  static constexpr size_t kMaxInputs = std::numeric_limits<size_t>::max();
  // If true, methods wait for the device.
  static constexpr bool kWaitsForDevice = false;

 private:
  tensorflow::OpKernelContext* const ctx_;
  const ParallelFor threads_;
};

// The traits (see AccumulatorResourceOf) of dense accumulators. `DeviceWorkspace` works on the
// device where the gradients lie; see CpuDenseWorkspace.
template <class DeviceWorkspace>
struct DenseTraitsOn {
  using Core = DenseAccumulator;
  using Workspace = DeviceWorkspace;
  static constexpr char kKind[] = "dense";

  static DenseOptions SumOptions(const AccumulatorSpec& spec) {
    DenseOptions options;
    options.type = ElementTypeOf(spec.dtype);
    options.shape = ShapeOf(spec.shape);
    options.mean = spec.reduction_type == "MEAN";
    options.budget = &Workspace::Budget();
    options.max_inputs = Workspace::kMaxInputs;
    if (!Workspace::kAddsSmallAtOnce) {
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

using DenseTraits = DenseTraitsOn<CpuDenseWorkspace>;

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_DENSE_TRAITS_H_
