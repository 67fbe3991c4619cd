#include "cc/gpu/device_memory.h"

#include <cuda_runtime.h>

#include "cc/gpu/cuda_status.h"

namespace condacc {

Status QueueZeros(void* to, size_t num_bytes, void* stream) {
  if (num_bytes == 0) return Status();
  return CudaStatus(cudaMemsetAsync(to, 0, num_bytes, static_cast<cudaStream_t>(stream)),
                    "to clear memory");
}

}  // namespace condacc
