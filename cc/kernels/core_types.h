// TensorFlow's dtypes, shapes, tensors and threads as the core sees them.
#ifndef CONDACC_KERNELS_CORE_TYPES_H_
#define CONDACC_KERNELS_CORE_TYPES_H_

#include "cc/core/base/block.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
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

// Makes a block of the tensor's memory, which it keeps alive.
Block BlockOf(const tensorflow::Tensor& tensor);
// Makes a tensor of the memory of a block that BlockOf() or AllocateBlock() made.
tensorflow::Tensor TensorOf(const Block& block, ElementType type, const Shape& shape);

// True if this op alone refers to the input's memory, and that is not much more than the input
// itself (a slice would keep the whole of its parent): it may be kept and written to.
bool OwnsInput(tensorflow::OpKernelContext* ctx, int index);

// Memory from the op's allocator; ResourceExhausted if there is none.
Status AllocateBlock(tensorflow::OpKernelContext* ctx, ElementType type, const Shape& shape,
                     Block* block);

// The same for what an accumulator keeps to itself. Large blocks are mapped, so that what will not
// be read again can be discarded.
Status AllocateInnerBlock(tensorflow::OpKernelContext* ctx, ElementType type, const Shape& shape,
                          Block* block);

// The threads of the op's device. They outlive the op.
ParallelFor DeviceThreads(tensorflow::OpKernelContext* ctx);

}  // namespace condacc

#endif  // CONDACC_KERNELS_CORE_TYPES_H_
