// Device memory and the question whether there is a device, for tests of the CUDA launchers.
#ifndef CONDACC_TESTS_GPU_GPU_SUPPORT_H_
#define CONDACC_TESTS_GPU_GPU_SUPPORT_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {

inline bool HasGpu() {
  int num_devices = 0;
  return cudaGetDeviceCount(&num_devices) == cudaSuccess && num_devices > 0;
}

// Skips, with the reason, where there is no GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    int num_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&num_devices);
    if (error != cudaSuccess || num_devices == 0) {
      GTEST_SKIP() << "no GPU: " << cudaGetErrorString(error);
    }
    RecordProperty("seed", static_cast<int>(seed_));
  }
  unsigned seed() const { return seed_; }

 private:
  const unsigned seed_ = std::random_device()();
};

// Device memory that holds `values` from `offset` elements after an aligned address.
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const std::vector<T>& values, size_t offset = 0)
      : size_(values.size()), offset_(offset) {
    EXPECT_EQ(cudaMalloc(&start_, (size_ + offset_) * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  DeviceBuffer(DeviceBuffer&& other) : size_(other.size_), offset_(other.offset_) {
    std::swap(start_, other.start_);
  }
  ~DeviceBuffer() { cudaFree(start_); }

  T* data() const { return static_cast<T*>(start_) + offset_; }

  std::vector<T> Read() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), data(), size_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  size_t size_;
  size_t offset_;
  void* start_ = nullptr;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_GPU_SUPPORT_H_
