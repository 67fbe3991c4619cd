// CUDA's errors as the core's. For .cu.cc files.
#ifndef CONDACC_GPU_CUDA_STATUS_H_
#define CONDACC_GPU_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include <string>

#include "cc/core/base/status.h"

namespace condacc {

// `what` was being done: "a dense sum".
inline Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status();
  cudaGetLastError();  // else the next launch of this thread would be told it too
  return Status(StatusCode::kInternal, std::string("The GPU refused ") + what + ": " +
                                           cudaGetErrorName(error) + ", " +
                                           cudaGetErrorString(error));
}

}  // namespace condacc

#endif  // CONDACC_GPU_CUDA_STATUS_H_
