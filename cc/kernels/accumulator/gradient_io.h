// Converts gradients and values between TensorFlow and the core.
#ifndef CONDACC_KERNELS_ACCUMULATOR_GRADIENT_IO_H_
#define CONDACC_KERNELS_ACCUMULATOR_GRADIENT_IO_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

// The scalar inputs of an apply.
struct ApplyArgs {
  int64_t local_step = 0;
  std::optional<int64_t> contributor = std::nullopt;
  double weight = 1;
};

// Applies the gradient in the inputs from `first` on. A dense gradient is one input, a sparse one
// is three: indices [n], values [n, d1, ...] and the dense shape [rank], which may be empty.
absl::Status ApplyGradient(tensorflow::OpKernelContext* ctx, AccumulatorResource& resource,
                           const ApplyArgs& args, int first, ApplyOutcome* outcome);

// Allocates, before the take, the outputs other than the value: the dense shape of a sparse value.
absl::Status ReserveOutputs(tensorflow::OpKernelContext* ctx, bool is_sparse,
                            tensorflow::Tensor* reserved);

// Sets the outputs from `first` on to the value.
void SetOutputs(tensorflow::OpKernelContext* ctx, int first, const AccumulatorSpec& spec,
                const tensorflow::Tensor& reserved, Value value);

// Outputs zeros of the accumulator's shape, or no rows: indices [0] and values [0, d1, ...].
// Unknown dimensions are 0.
absl::Status SetEmptyOutputs(tensorflow::OpKernelContext* ctx, int first,
                             const AccumulatorSpec& spec, const tensorflow::Tensor& reserved,
                             Workspace& workspace);

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_GRADIENT_IO_H_
