#include "cc/gpu/device_memory.h"

#include <cuda_runtime.h>

#include "cc/gpu/cuda_status.h"

namespace condacc {

Status QueueCopy(const void* from, size_t num_bytes, void* to, void* stream) {
  if (num_bytes == 0) return Status();
  return CudaStatus(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice,
                                    static_cast<cudaStream_t>(stream)),
                    "to copy memory");
}

Status QueueZeros(void* to, size_t num_bytes, void* stream) {
  if (num_bytes == 0) return Status();
  return CudaStatus(cudaMemsetAsync(to, 0, num_bytes, static_cast<cudaStream_t>(stream)),
                    "to clear memory");
}

Status ReadToHost(const void* from, size_t num_bytes, void* to, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  cudaError_t error = cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, cuda_stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(cuda_stream);
  return CudaStatus(error, "to read memory");
}

}  // namespace condacc
