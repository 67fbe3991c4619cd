// Buffers whose memory is returned to the system when it is freed.
#ifndef CONDACC_MEMORY_MAPPED_BUFFER_H_
#define CONDACC_MEMORY_MAPPED_BUFFER_H_

#include <cstddef>

#include "cc/core/base/buffer.h"

namespace condacc {

// The size and the alignment of a huge page.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Makes a buffer of zeros in its own mapping, with huge pages where the system has them. Unlike
// memory of TensorFlow's allocator, which keeps what is freed, the memory is returned to the system
// when the buffer is destroyed, or earlier, huge page by huge page (Buffer::DiscardFirst()).
// Returns an empty buffer if there is not enough memory.
Buffer MapBuffer(size_t num_bytes);

}  // namespace condacc

#endif  // CONDACC_MEMORY_MAPPED_BUFFER_H_
