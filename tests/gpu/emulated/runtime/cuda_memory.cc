// The CUDA runtime's functions for memory and streams.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <set>

#include "tests/gpu/emulated/runtime/cuda_errors.h"
#include "tests/gpu/emulated/runtime/device_memory.h"
#include "tests/gpu/emulated/runtime/stream_queue.h"

using condacc::emulated::DeviceMemory;
using condacc::emulated::Refused;
using condacc::emulated::StreamQueue;

namespace {

void CopyNow(void* to, const void* from, size_t num_bytes) {
  StreamQueue::Get().Wait();
  StreamQueue::Get().Now([=] { DeviceMemory::Get().Copy(to, from, num_bytes); });
}

// Pinned memory is the host's, but copies from and to it are queued.
class PinnedMemory {
 public:
  static PinnedMemory& Get() {
    static auto* const memory = new PinnedMemory;
    return *memory;
  }
  cudaError_t Allocate(void** data, size_t num_bytes) {
    const std::lock_guard<std::mutex> lock(mu_);
    *data = std::malloc(num_bytes);
    if (*data == nullptr) return Refused(cudaErrorMemoryAllocation);
    blocks_.insert(*data);
    return cudaSuccess;
  }
  // Only what begins where a block does is looked for.
  bool Contains(const void* data) {
    const std::lock_guard<std::mutex> lock(mu_);
    return blocks_.count(const_cast<void*>(data)) > 0;
  }

 private:
  std::mutex mu_;
  std::set<void*> blocks_;
};

bool IsOnDevice(const void* data) {
  return StreamQueue::Get().Now([=] { return DeviceMemory::Get().Contains(data); });
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** data, size_t num_bytes) {
  *data = nullptr;
  if (num_bytes == 0) return cudaSuccess;
  *data = StreamQueue::Get().Now([=] { return DeviceMemory::Get().Allocate(num_bytes); });
  return *data == nullptr ? Refused(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  StreamQueue::Get().Wait();
  StreamQueue::Get().Now([=] { DeviceMemory::Get().Free(data); });
  return cudaSuccess;
}

// The memory is there at once and goes when the stream comes to it.
cudaError_t cudaMallocAsync(void** data, size_t num_bytes, cudaStream_t /*stream*/) {
  return cudaMalloc(data, num_bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t /*stream*/) {
  if (data != nullptr) StreamQueue::Get().Push([=] { DeviceMemory::Get().Free(data); });
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, size_t num_bytes, unsigned /*flags*/) {
  return PinnedMemory::Get().Allocate(data, num_bytes);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t num_bytes, cudaMemcpyKind /*kind*/) {
  if (num_bytes > 0) CopyNow(to, from, num_bytes);
  return cudaSuccess;
}

// A copy from or to pageable memory of the host is made at once.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind,
                            cudaStream_t /*stream*/) {
  PinnedMemory& pinned = PinnedMemory::Get();
  if (kind == cudaMemcpyDeviceToDevice || pinned.Contains(to) || pinned.Contains(from) ||
      (IsOnDevice(to) && IsOnDevice(from))) {
    StreamQueue::Get().Push([=] { DeviceMemory::Get().Copy(to, from, num_bytes); });
  } else {
    CopyNow(to, from, num_bytes);
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t num_bytes, cudaStream_t /*stream*/) {
  StreamQueue::Get().Push([=] { DeviceMemory::Get().Fill(to, value, num_bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) {
  StreamQueue::Get().Wait();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  StreamQueue::Get().Wait();
  return cudaSuccess;
}

// An event is complete when all that is queued has run.
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t /*stream*/) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) { return cudaStreamSynchronize(nullptr); }
cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) { return cudaSuccess; }

cudaError_t cudaDeviceSynchronize() { return cudaStreamSynchronize(nullptr); }

}  // extern "C"
