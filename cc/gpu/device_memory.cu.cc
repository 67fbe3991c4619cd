#include "cc/gpu/device_memory.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "cc/gpu/host_device.h"
#include "cc/gpu/kernel_launch.h"

namespace condacc {
namespace {

struct WidenIndex {
  const int32_t* from;
  int64_t* to;

  CONDACC_HOST_DEVICE void operator()(int64_t i) const { to[i] = from[i]; }
};

}  // namespace

Status QueueCopy(const void* from, size_t num_bytes, void* to, cudaStream_t stream) {
  if (num_bytes == 0) return Status();
  return CudaStatus(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, stream),
                    "to copy memory");
}

Status QueueZeros(void* to, size_t num_bytes, cudaStream_t stream) {
  if (num_bytes == 0) return Status();
  return CudaStatus(cudaMemsetAsync(to, 0, num_bytes, stream), "to clear memory");
}

Status QueueWiden(const int32_t* from, size_t size, int64_t* to, cudaStream_t stream) {
  return QueueForEach(static_cast<int64_t>(size), WidenIndex{from, to}, stream, "to widen indices");
}

Status CopyNow(const void* from, size_t num_bytes, void* to, cudaStream_t stream) {
  if (num_bytes == 0) return Status();
  cudaError_t error = cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return CudaStatus(error, "to copy memory");
}

}  // namespace condacc
