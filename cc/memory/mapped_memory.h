// Memory that is returned to the system when it is freed.
#ifndef CONDACC_MEMORY_MAPPED_MEMORY_H_
#define CONDACC_MEMORY_MAPPED_MEMORY_H_

#include <cstddef>

#include "cc/core/base/buffer.h"

namespace condacc {

// Makes a buffer in a mapping of its own, in huge pages where the system has them. TensorFlow's
// allocator keeps what is freed; this memory is returned to the system when the buffer is
// destroyed, or before, piece by piece (Buffer::DiscardFirst()). Returns an empty buffer if memory
// is refused.
Buffer MapBuffer(size_t num_bytes);

// Records that `num_bytes` bytes of malloc's memory were freed. glibc keeps freed buffers, even
// large ones, in heaps of the threads that freed them, where other threads cannot use them. When
// TrimSchedule says so, a background thread returns them to the system. Does not buffer.
void NoteFreedHeap(size_t num_bytes);

}  // namespace condacc

#endif  // CONDACC_MEMORY_MAPPED_MEMORY_H_
