#include "cc/gpu/dense_launch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/base/element_type.h"
#include "cc/core/base/status.h"
#include "cc/core/math/dense_math.h"
#include "cc/gpu/dense_pass.h"
#include "gtest/gtest.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/gpu/gpu_support.h"

namespace condacc {
template <>
constexpr ElementType kTypeOf<__half> = ElementType::kFloat16;
template <>
constexpr ElementType kTypeOf<__nv_bfloat16> = ElementType::kBFloat16;

namespace {

// Draws some of the values and repeats them, because drawing would take most of a test's time.
template <typename T>
std::vector<T> RandomValues(size_t size, std::mt19937* random) {
  constexpr size_t kDrawn = 10007;  // Not a power of two, because the spacing of threads is one.
  std::normal_distribution<float> normal(0, std::is_integral_v<T> ? 1e6f : 1.0f);
  std::vector<T> values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = i < kDrawn ? static_cast<T>(normal(*random)) : values[i - kDrawn];
  }
  return values;
}

template <typename Out, typename First, typename T>
std::vector<Out> ExpectedSum(const std::vector<First>& first,
                             const std::vector<std::vector<T>>& inputs, int64_t count) {
  std::vector<Out> expected(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    auto sum = static_cast<SumOf<T>>(first[i]);
    for (const std::vector<T>& input : inputs) sum += static_cast<SumOf<T>>(input[i]);
    expected[i] = static_cast<Out>(sum / static_cast<SumOf<T>>(count));
  }
  return expected;
}

struct Case {
  size_t size;
  int num_inputs;
  int64_t count = 1;
  size_t offset = 0;  // The number of elements by which buffers are misaligned.
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
  DenseAddArgs args;
  std::vector<const void*> addresses;
  for (int k = 0; k < test.num_inputs; ++k) {
    inputs.push_back(RandomValues<T>(test.size, &random));
    device_inputs.emplace_back(inputs.back(), test.offset);
    addresses.push_back(device_inputs.back().data());
  }
  args.inputs = addresses.data();
  args.num_inputs = addresses.size();
  const DeviceBuffer<First> device_first(first, test.offset);
  const DeviceBuffer<Out> device_out(std::vector<Out>(test.size), test.offset);
  args.type = kTypeOf<T>;
  args.num_elements = test.size;
  args.first = device_first.data();
  args.first_is_float32 = sizeof(T) == 2 && std::is_same_v<First, float>;
  args.divisor = test.count;
  args.out = device_out.data();
  args.out_is_float32 = sizeof(T) == 2 && std::is_same_v<Out, float>;

  ASSERT_STREQ(QueueDenseAdd(args, nullptr).message().c_str(), "");
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);

  const std::vector<Out> got = device_out.Read();
  const std::vector<Out> expected = ExpectedSum<Out>(first, inputs, test.count);
  for (size_t i = 0; i < test.size; ++i) {
    ASSERT_EQ(std::memcmp(&got[i], &expected[i], sizeof(Out)), 0)
        << "element " << i << ": got " << static_cast<double>(got[i]) << ", expected "
        << static_cast<double>(expected[i]);
  }
}

class DenseLaunchGpuTest : public GpuTest {
 protected:
  template <typename T, typename First = T, typename Out = T>
  void CheckAllCases() {
    const int64_t mean_of = std::is_integral_v<T> ? 1 : 3;
    for (const int num_inputs : {0, 1, 3, 8, 9}) {
      for (const size_t size : {size_t{1}, size_t{7}, size_t{4096}, size_t{1000003}}) {
        CheckSum<T, First, Out>({size, num_inputs}, seed());
        CheckSum<T, First, Out>({size, num_inputs, mean_of}, seed());
      }
      CheckSum<T, First, Out>({4099, num_inputs, mean_of, 1}, seed());
    }
    CheckSum<T, First, Out>({65, static_cast<int>(kMaxDenseInputs)}, seed());
  }
};

TEST_F(DenseLaunchGpuTest, FloatSumHasTheBitsOfAddingInOrder) { CheckAllCases<float>(); }

TEST_F(DenseLaunchGpuTest, DoubleSumHasTheBitsOfAddingInOrder) { CheckAllCases<double>(); }

TEST_F(DenseLaunchGpuTest, IntegersAreSummed) {
  CheckAllCases<int32_t>();
  CheckAllCases<int64_t>();
}

TEST_F(DenseLaunchGpuTest, HalfIsAddedInFloatAndRoundedOnce) {
  CheckAllCases<__half>();
  CheckAllCases<__half, float, __half>();
  CheckAllCases<__half, __half, float>();
  CheckAllCases<__half, float, float>();
}

TEST_F(DenseLaunchGpuTest, Bfloat16IsAddedInFloatAndRoundedOnce) {
  CheckAllCases<__nv_bfloat16>();
  CheckAllCases<__nv_bfloat16, float, __nv_bfloat16>();
  CheckAllCases<__nv_bfloat16, __nv_bfloat16, float>();
  CheckAllCases<__nv_bfloat16, float, float>();
}

TEST_F(DenseLaunchGpuTest, ComplexNumbersAreDividedByPart) {
  const DeviceBuffer<float> sum(std::vector<float>{2, 4, 6, 8});
  DenseAddArgs args;
  args.type = ElementType::kComplex64;
  args.num_elements = 2;
  args.first = args.out = sum.data();
  args.divisor = 2;
  ASSERT_TRUE(QueueDenseAdd(args, nullptr).ok());
  EXPECT_EQ(sum.Read(), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(DenseLaunchGpuTest, SumReplacesAnyOfItsOperandsInPlace) {
  constexpr size_t kOperands = 10;
  for (size_t replaced = 0; replaced < kOperands; ++replaced) {
    std::vector<DeviceBuffer<float>> buffers;
    std::vector<const void*> operands;
    for (size_t k = 0; k < kOperands; ++k) {
      buffers.emplace_back(std::vector<float>(1001, static_cast<float>(1 << k)));
      operands.push_back(buffers.back().data());
    }
    DenseAddArgs args;
    args.num_elements = 1001;
    args.first = operands[0];
    args.inputs = operands.data() + 1;
    args.num_inputs = kOperands - 1;
    args.out = buffers[replaced].data();
    ASSERT_TRUE(QueueDenseAdd(args, nullptr).ok());
    EXPECT_EQ(buffers[replaced].Read(), std::vector<float>(1001, 1023.0f)) << replaced;
  }
}

// None of these sums reaches a device.
TEST(DenseLaunchArgumentsTest, NoElementsNeedNoDevice) {
  EXPECT_TRUE(QueueDenseAdd(DenseAddArgs(), nullptr).ok());
}

TEST(DenseLaunchArgumentsTest, ArgumentsOutOfRangeAreRefused) {
  float value = 0;
  DenseAddArgs good;
  good.first = good.out = &value;
  good.num_elements = 1;

  DenseAddArgs bad = good;
  bad.divisor = 0;
  EXPECT_EQ(QueueDenseAdd(bad, nullptr).code(), StatusCode::kInternal);
  bad = good;
  bad.first = nullptr;
  EXPECT_EQ(QueueDenseAdd(bad, nullptr).code(), StatusCode::kInternal);
  bad = good;
  const void* const missing = nullptr;
  bad.inputs = &missing;
  bad.num_inputs = 1;
  EXPECT_EQ(QueueDenseAdd(bad, nullptr).code(), StatusCode::kInternal);
  bad = good;
  const std::vector<const void*> many(kMaxDenseInputs + 1, &value);
  bad.inputs = many.data();
  bad.num_inputs = many.size();
  EXPECT_EQ(QueueDenseAdd(bad, nullptr).code(), StatusCode::kResourceExhausted);
}

TEST(DenseLaunchArgumentsTest, WithoutADeviceTheErrorSaysWhy) {
  if (HasGpu()) GTEST_SKIP() << "this machine has a GPU";
  float value = 0;
  DenseAddArgs args;
  args.first = args.out = &value;
  args.num_elements = 1;
  const void* const input = &value;
  args.inputs = &input;
  args.num_inputs = 1;
  const Status status = QueueDenseAdd(args, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("The GPU refused a dense sum: cudaError"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace condacc
