// Memory that goes back to the system.
#ifndef CONDACC_KERNELS_MAPPED_MEMORY_H_
#define CONDACC_KERNELS_MAPPED_MEMORY_H_

#include <cstddef>

#include "cc/core/base/block.h"

namespace condacc {

// Makes a block in a mapping of its own, in huge pages where the system has them. TensorFlow's
// allocator keeps what it once had; this memory is gone with the block, or earlier, piece by piece
// (Block::DiscardFirst). The block is empty if there is no memory.
Block MapBlock(size_t num_bytes);

// Records that so many bytes of malloc's memory were freed. glibc keeps freed blocks, even large
// ones, in heaps of the threads that freed them, where other threads cannot use them. When
// TrimSchedule says so, a background thread returns them to the system. Does not block.
void NoteFreedHeap(size_t num_bytes);

}  // namespace condacc

#endif  // CONDACC_KERNELS_MAPPED_MEMORY_H_
