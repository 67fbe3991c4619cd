// Copies, clears and reads device memory.
#ifndef CONDACC_GPU_DEVICE_MEMORY_H_
#define CONDACC_GPU_DEVICE_MEMORY_H_

#include <cstddef>

#include "cc/core/base/status.h"

namespace condacc {

// These functions queue their work on `stream`, a cudaStream_t. They return Internal if the device
// refuses it.
Status QueueCopy(const void* from, size_t num_bytes, void* to, void* stream);
Status QueueZeros(void* to, size_t num_bytes, void* stream);

// Copies memory of the device or of the host to `to`, in host memory, after all work queued on the
// stream before. Waits for the copy.
Status ReadToHost(const void* from, size_t num_bytes, void* to, void* stream);

}  // namespace condacc

#endif  // CONDACC_GPU_DEVICE_MEMORY_H_
