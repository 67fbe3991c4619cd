// Runs a function for many items on many threads of a device, and converts CUDA's errors. For
// .cu.cc files.
#ifndef CONDACC_GPU_KERNEL_LAUNCH_H_
#define CONDACC_GPU_KERNEL_LAUNCH_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "cc/core/base/status.h"

namespace condacc {

// `what` completes the sentence "The GPU refused ...", for instance "a dense sum".
inline Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status();
  cudaGetLastError();  // Otherwise, this thread's next launch would return it.
  return Status(StatusCode::kInternal, std::string("The GPU refused ") + what + ": " +
                                           cudaGetErrorName(error) + ", " +
                                           cudaGetErrorString(error));
}

inline constexpr int kThreads = 256;  // Threads of a block.

// How items are divided among threads.
enum class Division {
  kEven,    // Each thread gets the same number of items, for items that take equally long.
  kSingle,  // Each thread gets one item, so that the device balances items of unequal length.
};

// The number of blocks that a multiprocessor must be able to run at once, which limits the
// registers of a thread. 0 leaves this to the compiler.
template <typename Body, typename = void>
inline constexpr int kMinBlocksOf = 0;
template <typename Body>
inline constexpr int kMinBlocksOf<Body, std::void_t<decltype(Body::kMinBlocks)>> = Body::kMinBlocks;

template <typename Body>
__global__ void __launch_bounds__(kThreads, kMinBlocksOf<Body>)
    ForEachItem(const __grid_constant__ Body body, int64_t num_items) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < num_items;
       i += stride) {
    body(i);
  }
}

// Outputs the number of blocks of a kernel that the current device can run at once.
template <typename Kernel>
cudaError_t NumResidentBlocks(Kernel* kernel, int64_t* num_blocks) {
  int device = 0;
  int multiprocessors = 0;
  int blocks = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, 0);
  }
  *num_blocks = std::max<int64_t>(int64_t{blocks} * multiprocessors, 1);
  return error;
}

// Queues body(i) for every i below `num_items`. `body` is copied and holds device addresses only.
// For `what`, see CudaStatus().
template <typename Body>
Status QueueForEach(int64_t num_items, const Body& body, cudaStream_t stream, const char* what,
                    Division division = Division::kEven) {
  constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
  if (num_items <= 0) return Status();
  int64_t max_blocks = kMaxBlocks;
  const int64_t needed = (num_items + kThreads - 1) / kThreads;
  if (division == Division::kEven && needed > 1) {
    const cudaError_t error = NumResidentBlocks(ForEachItem<Body>, &max_blocks);
    if (error != cudaSuccess) return CudaStatus(error, what);
  }
  const auto num_blocks = static_cast<unsigned>(std::min(needed, max_blocks));
  ForEachItem<<<num_blocks, kThreads, 0, stream>>>(body, num_items);
  return CudaStatus(cudaGetLastError(), what);
}

}  // namespace condacc

#endif  // CONDACC_GPU_KERNEL_LAUNCH_H_
