// Device memory that is filled.
#ifndef CONDACC_GPU_DEVICE_MEMORY_H_
#define CONDACC_GPU_DEVICE_MEMORY_H_

#include <cstddef>

#include "cc/core/status.h"

namespace condacc {

// Queues it on `stream`, a cudaStream_t. Internal if the device refuses.
Status QueueZeros(void* to, size_t num_bytes, void* stream);

}  // namespace condacc

#endif  // CONDACC_GPU_DEVICE_MEMORY_H_
