// Tests of sums of float16 and bfloat16, which are added in float32.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cc/core/math/dense_math.h"
#include "gtest/gtest.h"
#include "tests/cc/base/parallel_for_support.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/math/dense_math_reference.h"

namespace condacc {
namespace {

constexpr size_t kSizes[] = {1, 7, 8, 1023, 1025, 5000};

template <typename Narrow>
class SumOfNarrow : public testing::Test {
 protected:
  using Traits = ElementTraits<Narrow>;

  void Generate(size_t size, size_t num_inputs) {
    inputs_.assign(num_inputs, std::vector<Narrow>(size));
    for (auto& input : inputs_) {
      for (Narrow& value : input) value = Traits::Random(random_);
    }
    operands_.clear();
    for (const auto& input : inputs_) operands_.push_back(input.data());
  }

  DenseAddArgs Args(size_t size) const {
    DenseAddArgs args;
    args.type = Traits::kType;
    args.num_elements = size;
    args.inputs = operands_.data();
    args.num_inputs = operands_.size();
    return args;
  }

  std::vector<float> Plus(std::vector<float> sums) const {
    for (const auto& input : inputs_) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += Traits::Widen(input[i]);
    }
    return sums;
  }

  static std::vector<float> Widen(const std::vector<Narrow>& values) {
    std::vector<float> wide;
    for (Narrow value : values) wide.push_back(Traits::Widen(value));
    return wide;
  }

  const uint32_t seed_ = TestSeed();
  std::mt19937 random_{seed_};
  std::vector<std::vector<Narrow>> inputs_;
  std::vector<const void*> operands_;
};

using NarrowTypes = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(SumOfNarrow, NarrowTypes);

// Sums from narrow to wide, then wide to wide in place, then wide to narrow, as a round of many
// gradients does.
TYPED_TEST(SumOfNarrow, AWideSumIsRoundedOnlyWhenItIsNarrowed) {
  SCOPED_TRACE(testing::Message() << "seed " << this->seed_);
  for (size_t size : kSizes) {
    for (size_t num_inputs : {0, 1, 7, 20}) {
      this->Generate(size, 1);
      const std::vector<TypeParam> first = this->inputs_[0];
      std::vector<float> wide(size);

      this->Generate(size, num_inputs);
      DenseAddArgs args = this->Args(size);
      args.first = first.data();
      args.out = wide.data();
      args.out_is_float32 = true;
      AddDense(args, SerialFor);
      std::vector<float> expected = this->Plus(this->Widen(first));
      ASSERT_TRUE(SameBits(wide, expected)) << size;

      this->Generate(size, num_inputs);
      args = this->Args(size);
      args.first = args.out = wide.data();
      args.first_is_float32 = args.out_is_float32 = true;
      AddDense(args, SerialFor);
      expected = this->Plus(expected);
      ASSERT_TRUE(SameBits(wide, expected)) << size;

      this->Generate(size, num_inputs);
      std::vector<TypeParam> narrow(size);
      args = this->Args(size);
      args.first = wide.data();
      args.first_is_float32 = true;
      args.out = narrow.data();
      args.divisor = 3;
      AddDense(args, SerialFor);
      expected = this->Plus(expected);
      std::vector<TypeParam> rounded;
      for (float sum : expected) rounded.push_back(ElementTraits<TypeParam>::Narrow(sum / 3));
      ASSERT_TRUE(SameBits(narrow, rounded)) << size;
    }
  }
}

TYPED_TEST(SumOfNarrow, NanAndInfinityTakeTheirCourse) {
  const NarrowFormat format = kFormatOf<TypeParam>;
  const uint16_t infinity = static_cast<uint16_t>(format.infinity());
  for (size_t size : {4, 64}) {
    std::vector<TypeParam> first(size, {infinity});
    this->inputs_.assign(1, std::vector<TypeParam>(size, {infinity}));
    first[1].bits = static_cast<uint16_t>(infinity + 1);  // This is a signalling NaN.
    first[2].bits = 0xffff;
    first[3].bits = infinity | 0x8000;
    this->operands_ = {this->inputs_[0].data()};
    DenseAddArgs args = this->Args(size);
    args.first = args.out = first.data();
    AddDense(args, SerialFor);
    EXPECT_EQ(first[0].bits, infinity);
    for (int i : {1, 2, 3}) EXPECT_TRUE(format.IsNan(first[i].bits)) << i;
  }
}

#if defined(__x86_64__) || defined(__aarch64__)

// The processor's register that says how it rounds, and whether it flushes subnormal numbers.
#if defined(__x86_64__)
constexpr uint64_t kFlushes = 0x8040;  // Results and operands.
uint64_t FloatControl() { return _mm_getcsr(); }
void SetFloatControl(uint64_t control) { _mm_setcsr(static_cast<unsigned>(control)); }
#else
constexpr uint64_t kFlushes = uint64_t{1} << 24;
uint64_t FloatControl() {
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
void SetFloatControl(uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control)); }
#endif

// TensorFlow's threads flush float32's subnormal numbers to zero. All of float16's subnormal
// numbers are normal ones in float32.
TEST(SumOfFloat16, SubnormalNumbersSurviveOnThreadsThatFlushThoseOfFloat32) {
  std::vector<Float16> values;
  for (uint16_t bits = 1; bits < 0x400; ++bits) values.push_back({bits});
  std::vector<Float16> doubled(values.size());
  const void* inputs[] = {values.data()};
  DenseAddArgs args;
  args.type = ElementType::kFloat16;
  args.num_elements = values.size();
  args.first = values.data();
  args.out = doubled.data();
  args.inputs = inputs;
  args.num_inputs = 1;
  volatile float subnormal = 1e-40f;
  const uint64_t before = FloatControl();
  SetFloatControl(before | kFlushes);
  AddDense(args, SerialFor);
  const float one_widened = Float16::ToFloat({1});
  const float flushed = subnormal + subnormal;
  SetFloatControl(before);
  EXPECT_EQ(flushed, 0) << "the thread must flush float32's";
  EXPECT_EQ(one_widened, std::ldexp(1.0f, -24));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(doubled[i].bits, 2 * values[i].bits) << i;
  }
}

#endif

}  // namespace
}  // namespace condacc
