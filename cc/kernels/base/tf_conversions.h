// Converts TensorFlow's dtypes, shapes, tensors and statuses to those of the core, and back.
#ifndef CONDACC_KERNELS_BASE_TF_CONVERSIONS_H_
#define CONDACC_KERNELS_BASE_TF_CONVERSIONS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

inline absl::Status ToAbsl(const Status& status) {
  static_assert(
      static_cast<int>(StatusCode::kCancelled) == static_cast<int>(absl::StatusCode::kCancelled) &&
      static_cast<int>(StatusCode::kInvalidArgument) ==
          static_cast<int>(absl::StatusCode::kInvalidArgument) &&
      static_cast<int>(StatusCode::kFailedPrecondition) ==
          static_cast<int>(absl::StatusCode::kFailedPrecondition) &&
      static_cast<int>(StatusCode::kOutOfRange) ==
          static_cast<int>(absl::StatusCode::kOutOfRange) &&
      static_cast<int>(StatusCode::kResourceExhausted) ==
          static_cast<int>(absl::StatusCode::kResourceExhausted) &&
      static_cast<int>(StatusCode::kInternal) == static_cast<int>(absl::StatusCode::kInternal));
  return absl::Status(static_cast<absl::StatusCode>(status.code()), status.message());
}

ElementType ElementTypeOf(tensorflow::DataType dtype);
tensorflow::DataType DataTypeOf(ElementType type);

// Returns an error if the shape is too large for a tensor.
absl::Status ConvertShape(const Shape& shape, tensorflow::TensorShape* tf_shape);
Shape ShapeOf(const tensorflow::PartialTensorShape& shape);

// Returns a buffer that refers to the tensor's memory and keeps it alive.
Buffer BufferOf(const tensorflow::Tensor& tensor);

// Makes memory of `num_bytes` bytes, such as MapBuffer() returns, the memory of a tensor. The
// result is a buffer of that tensor, with the same kind of owner() as those of BufferOf().
Buffer TensorBufferOf(Buffer mapping, size_t num_bytes);

// Returns whether the input's memory may be kept and written to: only this op refers to it, and it
// is not much larger than the input itself (a slice would keep its whole parent alive).
bool OwnsInput(tensorflow::OpKernelContext* ctx, int index);

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_TF_CONVERSIONS_H_
