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

// Notes that so many bytes were freed that TensorFlow's allocator had got from malloc. malloc keeps
// even large blocks once some as large have been freed, in a heap for each of several threads,
// where other threads do not find them. So from time to time (see TrimSchedule) another thread has
// them given back to the system. Does not wait for that.
void NoteFreedHeap(size_t num_bytes);

}  // namespace condacc

#endif  // CONDACC_KERNELS_MAPPED_TENSOR_H_
