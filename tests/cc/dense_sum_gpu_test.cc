#include "cc/gpu/dense_sum.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {
namespace {

template <typename T>
constexpr GpuElement kElement = GpuElement::kFloat;
template <>
constexpr GpuElement kElement<double> = GpuElement::kDouble;
template <>
constexpr GpuElement kElement<__half> = GpuElement::kHalf;
template <>
constexpr GpuElement kElement<__nv_bfloat16> = GpuElement::kBfloat16;

template <typename T>
using SumType = std::conditional_t<std::is_same_v<T, double>, double, float>;

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

template <typename T>
std::vector<T> RandomValues(size_t size, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::vector<T> values(size);
  for (T& value : values) value = static_cast<T>(normal(*random));
  return values;
}

template <typename Out, typename First, typename T>
std::vector<Out> ExpectedSum(const std::vector<First>& first,
                             const std::vector<std::vector<T>>& inputs, int64_t count) {
  std::vector<Out> expected(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    auto sum = static_cast<SumType<T>>(first[i]);
    for (const std::vector<T>& input : inputs) sum += static_cast<SumType<T>>(input[i]);
    expected[i] = static_cast<Out>(sum / static_cast<SumType<T>>(count));
  }
  return expected;
}

struct Case {
  size_t size;
  int num_inputs;
  int64_t count = 1;
  size_t offset = 0;  // Elements by which every buffer is out of alignment.
};

// Compares bit patterns: the order of the additions is part of the contract.
template <typename T, typename First, typename Out>
void CheckSum(const Case& test, unsigned seed) {
  SCOPED_TRACE(testing::Message() << "size " << test.size << ", inputs " << test.num_inputs
                                  << ", count " << test.count << ", offset " << test.offset
                                  << ", seed " << seed);
  std::mt19937 random(seed);
  const std::vector<First> first = RandomValues<First>(test.size, &random);
  std::vector<std::vector<T>> inputs;
  std::vector<DeviceBuffer<T>> device_inputs;
  GpuDenseSumArgs args;
  args.num_inputs = test.num_inputs;
  for (int k = 0; k < test.num_inputs; ++k) {
    inputs.push_back(RandomValues<T>(test.size, &random));
    device_inputs.emplace_back(inputs.back(), test.offset);
    args.inputs[k] = device_inputs.back().data();
  }
  const DeviceBuffer<First> device_first(first, test.offset);
  const DeviceBuffer<Out> device_out(std::vector<Out>(test.size), test.offset);
  args.element = kElement<T>;
  args.size = static_cast<int64_t>(test.size);
  args.first = device_first.data();
  args.first_is_float = std::is_same_v<First, float>;
  args.count = test.count;
  args.out = device_out.data();
  args.out_is_float = std::is_same_v<Out, float>;

  ASSERT_EQ(LaunchGpuDenseSum(args, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);

  const std::vector<Out> got = device_out.Read();
  const std::vector<Out> expected = ExpectedSum<Out>(first, inputs, test.count);
  for (size_t i = 0; i < test.size; ++i) {
    ASSERT_EQ(std::memcmp(&got[i], &expected[i], sizeof(Out)), 0)
        << "element " << i << ": got " << static_cast<double>(got[i]) << ", expected "
        << static_cast<double>(expected[i]);
  }
}

class DenseSumGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    int num_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&num_devices);
    if (error != cudaSuccess || num_devices == 0) {
      GTEST_SKIP() << "no GPU: " << cudaGetErrorString(error);
    }
    RecordProperty("seed", static_cast<int>(seed_));
  }

  template <typename T, typename First = T, typename Out = T>
  void CheckAllCases() {
    for (const int num_inputs : {0, 1, 3, kMaxGpuDenseSumInputs}) {
      for (const size_t size : {size_t{1}, size_t{7}, size_t{4096}, size_t{1000003}}) {
        CheckSum<T, First, Out>({size, num_inputs}, seed_);
        CheckSum<T, First, Out>({size, num_inputs, 3}, seed_);
      }
      CheckSum<T, First, Out>({4099, num_inputs, 7, 1}, seed_);
    }
  }

  const unsigned seed_ = std::random_device()();
};

TEST_F(DenseSumGpuTest, FloatSumHasTheBitsOfAddingInOrder) { CheckAllCases<float>(); }

TEST_F(DenseSumGpuTest, DoubleSumHasTheBitsOfAddingInOrder) { CheckAllCases<double>(); }

TEST_F(DenseSumGpuTest, HalfIsAddedInFloatAndRoundedOnce) {
  CheckAllCases<__half>();
  CheckAllCases<__half, float, __half>();
  CheckAllCases<__half, __half, float>();
  CheckAllCases<__half, float, float>();
}

TEST_F(DenseSumGpuTest, Bfloat16IsAddedInFloatAndRoundedOnce) {
  CheckAllCases<__nv_bfloat16>();
  CheckAllCases<__nv_bfloat16, float, __nv_bfloat16>();
  CheckAllCases<__nv_bfloat16, __nv_bfloat16, float>();
  CheckAllCases<__nv_bfloat16, float, float>();
}

TEST_F(DenseSumGpuTest, SumReplacesItsFirstAddendInPlace) {
  const DeviceBuffer<float> sum(std::vector<float>(1001, 1.0f));
  const DeviceBuffer<float> input(std::vector<float>(1001, 2.0f));
  GpuDenseSumArgs args;
  args.size = 1001;
  args.first = args.out = sum.data();
  args.inputs[0] = input.data();
  args.num_inputs = 1;
  ASSERT_EQ(LaunchGpuDenseSum(args, nullptr), cudaSuccess);
  EXPECT_EQ(sum.Read(), std::vector<float>(1001, 3.0f));
}

TEST(DenseSumArgumentsTest, ArgumentsOutOfRangeAreRefused) {
  float value = 0;
  GpuDenseSumArgs good;
  good.first = good.out = &value;
  good.size = 0;
  EXPECT_EQ(LaunchGpuDenseSum(good, nullptr), cudaSuccess);

  GpuDenseSumArgs bad = good;
  bad.size = -1;
  EXPECT_EQ(LaunchGpuDenseSum(bad, nullptr), cudaErrorInvalidValue);
  bad = good;
  bad.count = 0;
  EXPECT_EQ(LaunchGpuDenseSum(bad, nullptr), cudaErrorInvalidValue);
  bad = good;
  bad.num_inputs = kMaxGpuDenseSumInputs + 1;
  EXPECT_EQ(LaunchGpuDenseSum(bad, nullptr), cudaErrorInvalidValue);
  bad = good;
  bad.size = 1;
  bad.num_inputs = 1;
  EXPECT_EQ(LaunchGpuDenseSum(bad, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace condacc
