// Memory that is returned to the system when it is freed.
#ifndef CONDACC_KERNELS_MAPPED_MEMORY_H_
#define CONDACC_KERNELS_MAPPED_MEMORY_H_

#include <cstddef>

#include "cc/core/base/block.h"

namespace condacc {

// Makes a block in a mapping of its own, in huge pages where the system has them. TensorFlow's
// allocator keeps what is freed; this memory is returned to the system when the block is destroyed,
// or before, piece by piece (Block::DiscardFirst()). Returns an empty block if memory is refused.
Block MapBlock(size_t num_bytes);

// Records that `num_bytes` bytes of malloc's memory were freed. glibc keeps freed blocks, even
// large ones, in heaps of the threads that freed them, where other threads cannot use them. When
// TrimSchedule says so, a background thread returns them to the system. Does not block.
void NoteFreedHeap(size_t num_bytes);

}  // namespace condacc

#endif  // CONDACC_KERNELS_MAPPED_MEMORY_H_
