// TensorFlow's dtypes, shapes, tensors and threads as the core sees them.
#ifndef CONDACC_KERNELS_CORE_TYPES_H_
#define CONDACC_KERNELS_CORE_TYPES_H_

#include <cstddef>
#include <utility>

#include "cc/core/base/element_type.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/kernels/mapped_tensor.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

ElementType ElementTypeOf(tensorflow::DataType dtype);
tensorflow::DataType DataTypeOf(ElementType type);

Shape ShapeOf(const tensorflow::TensorShape& shape);
Shape ShapeOf(const tensorflow::PartialTensorShape& shape);

// A tensor as the core sees it. One of no elements has no memory, but is a block all the same.
class TensorBlock {
 public:
  TensorBlock() = default;
  // `is_mapped`: by MapTensor().
  explicit TensorBlock(tensorflow::Tensor tensor, bool is_mapped = false)
      : tensor_(std::move(tensor)), is_set_(true), is_mapped_(is_mapped) {}
  TensorBlock(TensorBlock&& other) noexcept
      : tensor_(std::move(other.tensor_)),
        is_set_(std::exchange(other.is_set_, false)),
        is_mapped_(other.is_mapped_) {}
  TensorBlock& operator=(TensorBlock&& other) noexcept {
    tensor_ = std::move(other.tensor_);
    is_set_ = std::exchange(other.is_set_, false);
    is_mapped_ = other.is_mapped_;
    return *this;
  }

  void* data() const { return tensor_.data(); }
  explicit operator bool() const { return is_set_; }
  const tensorflow::Tensor& tensor() const { return tensor_; }

  // The first bytes, so many, will not be read again. Other memory than mapped has no use for that.
  void Discard(size_t num_bytes) const {
    if (is_mapped_) DiscardMapped(tensor_, num_bytes);
  }

 private:
  tensorflow::Tensor tensor_;
  bool is_set_ = false;
  bool is_mapped_ = false;
};

// True if this op alone refers to the input's memory, and that is not much more than the input
// itself (a slice would keep the whole of its parent): it may be kept and written to.
bool OwnsInput(tensorflow::OpKernelContext* ctx, int index);

// Memory from the op's allocator; ResourceExhausted if there is none.
Status AllocateBlock(tensorflow::OpKernelContext* ctx, ElementType type, const Shape& shape,
                     TensorBlock* block);

// The same for what an accumulator keeps to itself. Large blocks are mapped, so that they can be
// discarded.
Status AllocateInnerBlock(tensorflow::OpKernelContext* ctx, ElementType type, const Shape& shape,
                          TensorBlock* block);

// The threads of the op's device. They outlive the op.
ParallelFor DeviceThreads(tensorflow::OpKernelContext* ctx);

}  // namespace condacc

#endif  // CONDACC_KERNELS_CORE_TYPES_H_
