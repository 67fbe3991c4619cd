// The CUDA runtime's functions that register and launch kernels, as nvcc's host code calls them.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/gpu/emulated/runtime/cuda_errors.h"
#include "tests/gpu/emulated/runtime/launch.h"
#include "tests/gpu/emulated/runtime/stream_queue.h"
#include "tests/gpu/emulated/runtime/thread.h"

using condacc::emulated::Extent;
using condacc::emulated::FindKernel;
using condacc::emulated::Kernel;
using condacc::emulated::Launch;
using condacc::emulated::Refused;
using condacc::emulated::StreamQueue;

namespace {

// The arguments of `<<<...>>>`, kept until the launch that follows.
struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

// The names of kernels, by the address that stands for each in host code.
std::unordered_map<const void*, std::string>& Names() {
  static auto* const names = new std::unordered_map<const void*, std::string>;
  return *names;
}

std::vector<uint8_t> CopyParameters(const Kernel& kernel, void** arguments) {
  std::vector<uint8_t> parameters;
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const auto [size, offset] = kernel.parameters[i];
    if (parameters.size() < offset + size) parameters.resize(offset + size);
    std::memcpy(parameters.data() + offset, arguments[i], size);
  }
  return parameters;
}

cudaError_t QueueLaunch(const void* function, dim3 grid, dim3 block, void** arguments,
                        size_t shared_bytes) {
  constexpr size_t kMaxParameterBytes = 4096;
  const auto named = Names().find(function);
  if (named == Names().end()) return Refused(cudaErrorInvalidDeviceFunction);
  const Kernel* const kernel = FindKernel(named->second);
  if (kernel == nullptr) {
    std::fprintf(stderr, "emulated GPU: there is no kernel %s\n", named->second.c_str());
    return Refused(cudaErrorInvalidDeviceFunction);
  }
  Launch launch{kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, {}};
  launch.parameters = CopyParameters(*kernel, arguments);
  if (!launch.IsValid(shared_bytes) || launch.parameters.size() > kMaxParameterBytes) {
    return Refused(cudaErrorInvalidConfiguration);
  }
  StreamQueue::Get().Push([launch = std::move(launch)] { launch.Run(); });
  return cudaSuccess;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}

void __cudaRegisterFunction(void** /*handle*/, const char* function, char* /*device_function*/,
                            const char* name, int /*thread_limit*/, uint3* /*tid*/, uint3* /*bid*/,
                            dim3* /*block*/, dim3* /*grid*/, int* /*warp_size*/) {
  Names()[function] = name;
}
void __cudaRegisterVar(void** /*handle*/, char* /*variable*/, char* /*device_address*/,
                       const char* /*name*/, int /*external*/, size_t /*size*/, int /*constant*/,
                       int /*global*/) {}

// The kernel of a function is the function itself.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t /*stream*/) {
  return QueueLaunch(kernel, grid, block, arguments, shared_bytes);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<void**>(stream) = last.stream;
  return cudaSuccess;
}

}  // extern "C"
