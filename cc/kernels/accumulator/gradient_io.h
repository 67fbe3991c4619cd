// Converts gradients and values between TensorFlow and the core.
#ifndef CONDACC_KERNELS_ACCUMULATOR_GRADIENT_IO_H_
#define CONDACC_KERNELS_ACCUMULATOR_GRADIENT_IO_H_

#include "absl/status/status.h"
#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

// Reads the gradient in the inputs from `first` on. A dense gradient is one input, a sparse one is
// three: indices [n], values [n, d1, ...] and the dense shape [rank], which may be empty. May throw
// std::bad_alloc.
Gradient ReadGradient(tensorflow::OpKernelContext* ctx, int first, bool is_sparse);

// The outputs of a take from `first` on: the value of a dense accumulator, or the indices [n]
// int64, the values [n, d1, ...] and the shape [rank] int64 of a sparse one. It must not be used
// after the op has ended. Not thread-safe.
class TakeOutputs {
 public:
  TakeOutputs(tensorflow::OpKernelContext* ctx, int first, const AccumulatorSpec& spec)
      : ctx_(ctx), first_(first), spec_(spec) {}

  // Asks for all memory that Set() needs for a value of this shape, so that no value is taken that
  // could not be handed out. Called at most once. May throw std::bad_alloc.
  Status Reserve(const Shape& shape);
  // Outputs the value, after Reserve(). It throws std::bad_alloc only if TensorFlow demands that
  // the value is copied to memory of its own (ScopedAllocator).
  void Set(Value value);
  // Outputs zeros of the accumulator's shape, or no rows: indices [0] and values [0, d1, ...].
  // Unknown dimensions are 0.
  absl::Status SetEmpty(Workspace& workspace);

 private:
  // Makes output `index` a tensor that has yet to get its memory.
  void Declare(int index, tensorflow::DataType dtype);
  // Sets an output that was declared.
  void Set(int index, const Buffer& buffer, tensorflow::DataType dtype,
           tensorflow::TensorShape shape);
  // Allocates an output, which may have been declared before.
  absl::Status Allocate(int index, tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
                        tensorflow::Tensor** tensor);
  // Outputs the shape of the dense tensor, with -1 as the number of rows if the constructor's shape
  // does not give it. `values` is the shape of the values.
  absl::Status OutputDenseShape(const tensorflow::TensorShape& values);

  tensorflow::OpKernelContext* const ctx_;
  const int first_;
  const AccumulatorSpec& spec_;
  // The shapes of the outputs, which may need memory.
  tensorflow::TensorShape indices_;
  tensorflow::TensorShape values_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_GRADIENT_IO_H_
