// Large buffers, whose pages are used again.
#ifndef CONDACC_MEMORY_MAPPED_BUFFER_H_
#define CONDACC_MEMORY_MAPPED_BUFFER_H_

#include <cstddef>

#include "cc/core/base/buffer.h"

namespace condacc {

// Makes a buffer in a mapping of its own, of whole huge pages where the system has them. Its
// contents are not defined. Its pages come from PagePool::Global() as far as possible, and go
// there when it is destroyed. Returns an empty buffer if there is not enough memory.
Buffer MapBuffer(size_t num_bytes);

}  // namespace condacc

#endif  // CONDACC_MEMORY_MAPPED_BUFFER_H_
