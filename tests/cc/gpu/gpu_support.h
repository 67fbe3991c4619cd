// Provides device memory for tests of the CUDA launchers, and skips them if there is no device.
#ifndef CONDACC_TESTS_GPU_GPU_SUPPORT_H_
#define CONDACC_TESTS_GPU_GPU_SUPPORT_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cc/base/test_settings.h"

namespace condacc {

inline bool HasGpu() {
  int num_devices = 0;
  return cudaGetDeviceCount(&num_devices) == cudaSuccess && num_devices > 0;
}

// Skips a test, with the reason, if there is no GPU, or fails it if TF_CONDACC_TEST_NEEDS_GPU is
// set. Prints the seed of the test.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    int num_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&num_devices);
    if (error != cudaSuccess || num_devices == 0) {
      ASSERT_TRUE(std::getenv("TF_CONDACC_TEST_NEEDS_GPU") == nullptr) << cudaGetErrorString(error);
      GTEST_SKIP() << "no GPU: " << cudaGetErrorString(error);
    }
    std::printf("TF_CONDACC_TEST_SEED=%u\n", seed_);
  }
  unsigned seed() const { return seed_; }

 private:
  const unsigned seed_ = TestSeed();
};

// The type in which gradients of type T are added.
template <typename T>
using SumOf = std::conditional_t<sizeof(T) == 2, float, T>;

// Device memory that holds `values` from `offset` elements after an aligned address.
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const std::vector<T>& values, size_t offset = 0)
      : size_(values.size()), offset_(offset) {
    Allocate();
    EXPECT_EQ(cudaMemcpy(data(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  // Allocates memory that has not been written yet.
  explicit DeviceBuffer(size_t size, size_t offset = 0) : size_(size), offset_(offset) {
    Allocate();
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
  void Allocate() { EXPECT_EQ(cudaMalloc(&start_, (size_ + offset_) * sizeof(T)), cudaSuccess); }

  size_t size_;
  size_t offset_;
  void* start_ = nullptr;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_GPU_SUPPORT_H_
