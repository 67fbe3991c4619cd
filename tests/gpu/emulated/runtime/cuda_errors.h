// Errors of the emulated CUDA runtime.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_CUDA_ERRORS_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_CUDA_ERRORS_H_

#include <cuda_runtime_api.h>

namespace condacc {
namespace emulated {

// Keeps the error for cudaGetLastError() of this thread, and returns it.
cudaError_t Refused(cudaError_t error);

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_CUDA_ERRORS_H_
