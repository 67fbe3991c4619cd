// The kernel that sums a few towers' gradients once all of them are available.
#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/status.h"
#include "cc/core/math/dense_math.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {
namespace {

using tensorflow::OpKernelContext;

// Sums gradients. Inputs: the gradients, in the order in which they are added. Writes the sum to
// the memory of the first input that may be overwritten, or to new memory if there is none.
class TowerDenseSumAtOnceOp : public Kernel {
 public:
  explicit TowerDenseSumAtOnceOp(tensorflow::OpKernelConstruction* ctx)
      : Kernel(ctx), device_(DeviceOf(ctx)) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shape", &shape_));
    for (int i = 0; i < ctx->num_inputs(); ++i) all_inputs_.push_back(i);
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    const tensorflow::Tensor& first = ctx->input(0);
    if (!shape_.IsCompatibleWith(first.shape())) return Mismatch(shape_, first);
    absl::InlinedVector<const void*, 8> rest;
    for (int i = 1; i < ctx->num_inputs(); ++i) {
      const tensorflow::Tensor& input = ctx->input(i);
      if (input.shape() != first.shape()) return Mismatch(first.shape(), input);
      rest.push_back(input.data());
    }
    DenseAddArgs args;
    args.type = ElementTypeOf(first.dtype());
    args.num_elements = static_cast<size_t>(first.NumElements());
    args.first = first.data();
    args.inputs = rest.data();
    args.num_inputs = rest.size();
    tensorflow::Tensor* sum = nullptr;
    TF_RETURN_IF_ERROR(ctx->forward_input_or_allocate_output(all_inputs_, 0, first.shape(), &sum));
    args.out = sum->data();
    OpWorkspace memory;
    Workspace& workspace = device_.make_workspace(ctx, &memory);
    workspace.Add(args);
    const Status failure = workspace.TakeFailure();
    if (failure.ok()) return absl::OkStatus();
    return ToAbsl(Status(failure.code(), absl::StrCat(failure.message(), InThisSum())));
  }

  template <class Shape>
  absl::Status Mismatch(const Shape& expected, const tensorflow::Tensor& gradient) const {
    return absl::InvalidArgumentError(absl::StrCat("Shape mismatch: expected ",
                                                   expected.DebugString(), ", got ",
                                                   gradient.shape().DebugString(), InThisSum()));
  }
  std::string InThisSum() const { return absl::StrCat(" (sum '", name(), "')"); }

  const Device& device_;
  tensorflow::PartialTensorShape shape_;
  std::vector<int> all_inputs_;
};

// The gradients and the sum are in the memory of the device.
[[maybe_unused]] const bool kHasSumAtOnce =
    RegisterOnCpuAndGpu<TowerDenseSumAtOnceOp>("Condacc>TowerDenseSumAtOnce", {});

}  // namespace
}  // namespace condacc
