// Runs a function for many items, on many threads of a device. For .cu.cc files.
#ifndef CONDACC_GPU_GRID_H_
#define CONDACC_GPU_GRID_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace condacc {

inline constexpr int kThreads = 256;  // Threads of a block.

// Outputs the number of blocks for `num_items` items. Each thread processes every item whose number
// differs from its own by a multiple of num_blocks * kThreads.
inline cudaError_t NumBlocks(int64_t num_items, int* num_blocks) {
  constexpr int64_t kBlocksPerMultiprocessor = 8;
  int device = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const int64_t needed = (num_items + kThreads - 1) / kThreads;
  *num_blocks = static_cast<int>(std::min(needed, multiprocessors * kBlocksPerMultiprocessor));
  return error;
}

template <typename Body>
__global__ void ForEachItem(const __grid_constant__ Body body, int64_t num_items) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < num_items;
       i += stride) {
    body(i);
  }
}

// Queues body(i) for every i below `num_items`. `body` is copied and holds device addresses only.
template <typename Body>
cudaError_t QueueForEach(int64_t num_items, const Body& body, cudaStream_t stream) {
  if (num_items <= 0) return cudaSuccess;
  int num_blocks = 0;
  const cudaError_t error = NumBlocks(num_items, &num_blocks);
  if (error != cudaSuccess) return error;
  ForEachItem<<<num_blocks, kThreads, 0, stream>>>(body, num_items);
  return cudaGetLastError();
}

}  // namespace condacc

#endif  // CONDACC_GPU_GRID_H_
