// Returns freed memory from malloc's heaps to the system.
#ifndef CONDACC_MEMORY_HEAP_TRIM_H_
#define CONDACC_MEMORY_HEAP_TRIM_H_

#include <cstddef>

namespace condacc {

// Records that `num_bytes` bytes of malloc's memory were freed. glibc keeps freed buffers, even
// large ones, in the heaps of the threads that freed them, where other threads cannot use them. As
// soon as 256 MiB were freed since the last time, which was at least 10 seconds ago, a background
// thread returns them to the system. That is so rare because malloc_trim() walks the whole heap of
// the process, whatever was freed. Does not block. Thread-safe.
void NoteFreedHeap(size_t num_bytes);

}  // namespace condacc

#endif  // CONDACC_MEMORY_HEAP_TRIM_H_
