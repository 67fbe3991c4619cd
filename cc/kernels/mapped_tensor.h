// Memory that goes back to the system.
#ifndef CONDACC_KERNELS_MAPPED_TENSOR_H_
#define CONDACC_KERNELS_MAPPED_TENSOR_H_

#include <cstddef>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

// Makes a tensor in a mapping of its own, in huge pages where the system has them. TensorFlow's
// allocator keeps what it once had; this is gone with the tensor, or earlier, piece by piece.
// False if there is no memory.
bool MapTensor(tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
               tensorflow::Tensor* tensor);

// Gives back whole pages among the first `num_bytes` of a tensor made by MapTensor(): they must not
// be read again.
void DiscardMapped(const tensorflow::Tensor& tensor, size_t num_bytes);

// Records that so many bytes of malloc's memory were freed. glibc keeps freed blocks, even large
// ones, in heaps of the threads that freed them, where other threads cannot use them. When
// TrimSchedule says so, a background thread returns them to the system. Does not block.
void NoteFreedHeap(size_t num_bytes);

}  // namespace condacc

#endif  // CONDACC_KERNELS_MAPPED_TENSOR_H_
