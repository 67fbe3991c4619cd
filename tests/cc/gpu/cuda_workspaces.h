// Workspaces of the core on a CUDA stream, with memory of the stream's own allocator.
#ifndef CONDACC_TESTS_GPU_CUDA_WORKSPACES_H_
#define CONDACC_TESTS_GPU_CUDA_WORKSPACES_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/mutex.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/dense_launch.h"
#include "cc/gpu/device_memory.h"
#include "cc/gpu/sparse_merge.h"
#include "gtest/gtest.h"

namespace condacc {

// A stream, and memory that belongs to it. Work that is queued after an allocation may use the
// memory, and work that was queued before it is freed may still use it. So memory is reused without
// waiting for the work that used it last. The stream outlives its memory. Thread-safe.
class CudaStream {
 public:
  CudaStream() { EXPECT_EQ(cudaStreamCreate(&stream_), cudaSuccess); }
  ~CudaStream() {
    EXPECT_EQ(num_buffers(), 0);
    Wait();
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t get() const { return stream_; }
  int64_t num_buffers() const { return num_buffers_; }
  void Wait() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

  Status Allocate(size_t num_bytes, Buffer* buffer) {
    void* data = nullptr;
    if (cudaMallocAsync(&data, std::max<size_t>(num_bytes, 1), stream_) != cudaSuccess) {
      return Status(StatusCode::kResourceExhausted, "Out of device memory");
    }
    ++num_buffers_;
    *buffer = Buffer(data, new Owner{this, data}, [](void* object) {
      auto* const owner = static_cast<Owner*>(object);
      --owner->stream->num_buffers_;
      cudaFreeAsync(owner->data, owner->stream->stream_);
      delete owner;
    });
    return Status();
  }

  template <typename T>
  Buffer CopyOf(const std::vector<T>& values) {
    Buffer buffer;
    EXPECT_TRUE(Allocate(values.size() * sizeof(T), &buffer).ok());
    EXPECT_EQ(cudaMemcpyAsync(buffer.data(), values.data(), values.size() * sizeof(T),
                              cudaMemcpyHostToDevice, stream_),
              cudaSuccess);
    Wait();  // The host memory has then been read.
    return buffer;
  }
  template <typename T>
  std::vector<T> Read(const Buffer& buffer, int64_t size) {
    std::vector<T> values(static_cast<size_t>(size));
    const Status status = CopyNow(buffer.data(), values.size() * sizeof(T), values.data(), stream_);
    EXPECT_TRUE(status.ok());
    return values;
  }

 private:
  struct Owner {
    CudaStream* stream;
    void* data;
  };

  cudaStream_t stream_ = nullptr;
  std::atomic<int64_t> num_buffers_{0};
};

class CudaWorkspace : public DeviceWorkspace {
 public:
  explicit CudaWorkspace(CudaStream* stream) : stream_(*stream) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    return stream_.Allocate(static_cast<size_t>(shape.num_elements()) * SizeOf(type), buffer);
  }
  void Add(const DenseAddArgs& args) override {
    Status status = QueueDenseAdd(args, stream_.get());
    MutexLock lock(&mu_);
    if (!status.ok()) failure_ = std::move(status);
  }
  Status TakeFailure() noexcept override {
    MutexLock lock(&mu_);
    return std::exchange(failure_, Status());
  }
  Status Clear(void* to, size_t num_bytes) override {
    return QueueZeros(to, num_bytes, stream_.get());
  }
  Status Copy(const void* from, size_t num_bytes, void* to) override {
    return QueueCopy(from, num_bytes, to, stream_.get());
  }
  Status CopyNow(const void* from, size_t num_bytes, void* to) override {
    return condacc::CopyNow(from, num_bytes, to, stream_.get());
  }
  Status Widen(const int32_t* from, size_t size, int64_t* to) override {
    return QueueWiden(from, size, to, stream_.get());
  }
  Status SizeOfMemory(const DeviceMergeArgs& args, size_t* num_bytes) override {
    return SizeOfMergeMemory(args, num_bytes);
  }
  Status Sort(const DeviceMergeArgs& args, DeviceMergeReport* report) override {
    return SortRows(args, stream_.get(), report);
  }
  Status Write(const DeviceMergeArgs& args, const DeviceMergeOutput& output) override {
    return QueueWrite(args, output, stream_.get());
  }

 private:
  CudaStream& stream_;
  Mutex mu_;
  Status failure_ CONDACC_GUARDED_BY(mu_);
};

}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_CUDA_WORKSPACES_H_
