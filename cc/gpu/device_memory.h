// Copies, clears and widens device memory.
#ifndef CONDACC_GPU_DEVICE_MEMORY_H_
#define CONDACC_GPU_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/status.h"
#include "cc/gpu/cuda_stream.h"

namespace condacc {

// These functions queue their work on `stream`. They return Internal if the device refuses it.
Status QueueCopy(const void* from, size_t num_bytes, void* to, cudaStream_t stream);
Status QueueZeros(void* to, size_t num_bytes, cudaStream_t stream);
// Copies `size` integers and converts them to int64.
Status QueueWiden(const int32_t* from, size_t size, int64_t* to, cudaStream_t stream);

// Copies memory of the device or of the host to memory of either, after all work that was queued on
// the stream before. Waits until the copy is made.
Status CopyNow(const void* from, size_t num_bytes, void* to, cudaStream_t stream);

}  // namespace condacc

#endif  // CONDACC_GPU_DEVICE_MEMORY_H_
