// Device memory that is filled and copied.
#ifndef CONDACC_GPU_DEVICE_MEMORY_H_
#define CONDACC_GPU_DEVICE_MEMORY_H_

#include <cstddef>

#include "cc/core/base/status.h"

namespace condacc {

// Queued on `stream`, a cudaStream_t. Internal if the device refuses.
Status QueueCopy(const void* from, size_t num_bytes, void* to, void* stream);
Status QueueZeros(void* to, size_t num_bytes, void* stream);

// Reads memory of the device or of the host as it is when the stream comes to it; waits for that.
Status ReadToHost(const void* from, size_t num_bytes, void* to, void* stream);

}  // namespace condacc

#endif  // CONDACC_GPU_DEVICE_MEMORY_H_
