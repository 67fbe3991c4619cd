// Converts CUDA's errors to the core's. For .cu.cc files.
#ifndef CONDACC_GPU_CUDA_STATUS_H_
#define CONDACC_GPU_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include <string>

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

}  // namespace condacc

#endif  // CONDACC_GPU_CUDA_STATUS_H_
