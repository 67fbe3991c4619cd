// The CUDA runtime's functions that tell what device there is, and what went wrong.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/gpu/emulated/runtime/cuda_errors.h"
#include "tests/gpu/emulated/runtime/launch.h"

namespace condacc {
namespace emulated {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

int Setting(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Few, so that small tests have more items than threads.
constexpr int kNumMultiprocessors = 3;

}  // namespace

cudaError_t Refused(cudaError_t error) {
  last_error = error;
  return error;
}

}  // namespace emulated
}  // namespace condacc

using condacc::emulated::kMaxSharedBytes;
using condacc::emulated::kNumMultiprocessors;
using condacc::emulated::last_error;
using condacc::emulated::Refused;
using condacc::emulated::Setting;

extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kNumMultiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kMaxSharedBytes;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = 0x7fffffff;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    default:
      std::fprintf(stderr, "emulated GPU: attribute %d is not known\n", attribute);
      return Refused(cudaErrorInvalidValue);
  }
}

// CUB chooses its policies by the version. A driver that is too old fails here.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*function*/) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver / 1000 < CUDART_VERSION / 1000) return Refused(cudaErrorInsufficientDriver);
  std::memset(attributes, 0, sizeof(*attributes));
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* num_blocks,
                                                                   const void* /*function*/,
                                                                   int /*block_size*/,
                                                                   size_t /*shared_bytes*/,
                                                                   unsigned /*flags*/) {
  *num_blocks = 2;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : Refused(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = Setting("EMULATED_DRIVER_VERSION", CUDART_VERSION);
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    default:
      return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

}  // extern "C"
