// Tests the arithmetic of the GPU's dense sums on the CPU.
#include "cc/gpu/dense_pass.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "cc/core/math/dense_math.h"
#include "gtest/gtest.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/base/parallel_for_support.h"
#include "tests/cc/base/test_settings.h"

namespace condacc {
namespace {

// Runs the items of a sum as a launcher does.
template <typename T>
void RunOnCpu(const DenseAddArgs& args) {
  const SumItems<DensePass<T, T, T>> sum(args, static_cast<int64_t>(args.num_elements));
  for (int64_t i = 0; i < sum.num_items(); ++i) sum(i);
}

template <typename T>
class DensePassTest : public testing::Test {};
using Elements = testing::Types<float, double, uint32_t, uint64_t>;
TYPED_TEST_SUITE(DensePassTest, Elements);

// A buffer that is aligned for packs, with elements from `offset` on.
template <typename T>
struct Buffer {
  explicit Buffer(size_t size) : packs(size / 2 + 2) {}
  T* at(size_t offset) { return reinterpret_cast<T*>(packs.data()) + offset; }
  std::vector<Pack<double, 2>> packs;
};

TYPED_TEST(DensePassTest, HasTheBitsOfTheSumOnTheCpu) {
  using T = TypeParam;
  const unsigned seed = TestSeed();
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, std::is_integral_v<T> ? 1e9 : 1);
  for (const size_t num_inputs : {0, 1, 7, 8, 9, 16, 19, 256}) {
    for (const size_t size : {1, 3, 4, 37, 256}) {
      for (const size_t offset : {0, 1}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", inputs " << num_inputs << ", size "
                                        << size << ", offset " << offset);
        std::vector<Buffer<T>> buffers(num_inputs + 1, Buffer<T>(size + offset));
        std::vector<const void*> inputs;
        for (Buffer<T>& buffer : buffers) {
          for (size_t i = 0; i < size; ++i) {
            buffer.at(offset)[i] = static_cast<T>(static_cast<int64_t>(normal(random)));
            if constexpr (std::is_floating_point_v<T>) buffer.at(offset)[i] = normal(random);
          }
          inputs.push_back(buffer.at(offset));
        }
        std::vector<T> expected(size);
        DenseAddArgs args;
        args.type = kTypeOf<T>;
        args.num_elements = size;
        args.first = inputs[0];
        args.inputs = inputs.data() + 1;
        args.num_inputs = num_inputs;
        args.divisor = std::is_integral_v<T> ? 1 : 3;
        args.out = expected.data();
        AddDense(args, SerialFor);
        // The sum is written in place, as in a take.
        args.out = buffers[0].at(offset);
        RunOnCpu<T>(args);
        EXPECT_EQ(std::memcmp(args.out, expected.data(), size * sizeof(T)), 0);
      }
    }
  }
}

TYPED_TEST(DensePassTest, ReplacesAnyOfItsOperandsInPlace) {
  using T = TypeParam;
  constexpr size_t kSize = 37;
  constexpr size_t kOperands = 10;
  for (size_t replaced = 0; replaced < kOperands; ++replaced) {
    std::vector<Buffer<T>> buffers(kOperands, Buffer<T>(kSize));
    std::vector<const void*> operands;
    for (size_t k = 0; k < kOperands; ++k) {
      for (size_t i = 0; i < kSize; ++i) buffers[k].at(0)[i] = static_cast<T>((i + 1) << k);
      operands.push_back(buffers[k].at(0));
    }
    DenseAddArgs args;
    args.type = kTypeOf<T>;
    args.num_elements = kSize;
    args.first = operands[0];
    args.inputs = operands.data() + 1;
    args.num_inputs = kOperands - 1;
    args.out = buffers[replaced].at(0);
    RunOnCpu<T>(args);
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_EQ(buffers[replaced].at(0)[i], static_cast<T>((i + 1) * 1023)) << replaced;
    }
  }
}

TEST(DensePassAlignmentTest, OneOperandOutOfAlignmentIsEnough) {
  Buffer<float> sum(16);
  Buffer<float> input(16);
  const void* inputs[] = {input.at(0), input.at(1)};
  DenseAddArgs args;
  args.first = args.out = sum.at(0);
  args.inputs = inputs;
  args.num_inputs = 1;
  EXPECT_TRUE((DensePass<float, float, float>::Of(args).IsAligned()));
  args.num_inputs = 2;
  EXPECT_FALSE((DensePass<float, float, float>::Of(args).IsAligned()));
}

TEST(DensePassWidthTest, NoOperandNeedsMoreThanOneVector) {
  EXPECT_EQ((DensePass<float, float, float>::kWidth), 4);
  EXPECT_EQ((DensePass<double, double, double>::kWidth), 2);
  EXPECT_EQ((DensePass<uint16_t, uint16_t, uint16_t>::kWidth), 8);
  EXPECT_EQ((DensePass<uint16_t, float, uint16_t>::kWidth), 4);
}

}  // namespace
}  // namespace condacc
