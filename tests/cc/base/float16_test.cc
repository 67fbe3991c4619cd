#include "cc/core/base/float16.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "tests/cc/base/narrow_float_reference.h"
#include "tests/cc/base/test_settings.h"

namespace condacc {
namespace {

constexpr int kNumPatterns = 1 << 16;

template <typename Narrow>
class NarrowFloat : public testing::Test {
 protected:
  static constexpr NarrowFormat kFormat = kFormatOf<Narrow>;

  static float Widened(int bits) { return Narrow::ToFloat({static_cast<uint16_t>(bits)}); }

  // Returns whether `value` is rounded as by the reference.
  static testing::AssertionResult IsRoundedRight(float value) {
    const uint16_t got = Narrow::FromFloat(value).bits;
    const uint16_t expected = NearestOf(kFormat, value);
    const bool same = kFormat.IsNan(expected) ? kFormat.IsNan(got) : got == expected;
    if (same) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << std::hexfloat << value << " became " << std::hex << got << " instead of " << expected;
  }
};

using NarrowTypes = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(NarrowFloat, NarrowTypes);

TYPED_TEST(NarrowFloat, EveryPatternWidensExactly) {
  for (int bits = 0; bits < kNumPatterns; ++bits) {
    const double expected = DoubleOf(this->kFormat, static_cast<uint16_t>(bits));
    const float got = this->Widened(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(got, expected) << bits;
      ASSERT_EQ(std::signbit(got), std::signbit(expected)) << bits;
    }
  }
}

TYPED_TEST(NarrowFloat, EveryPatternSurvivesARoundTrip) {
  for (int bits = 0; bits < kNumPatterns; ++bits) {
    const uint16_t back = TypeParam::FromFloat(this->Widened(bits)).bits;
    if (this->kFormat.IsNan(static_cast<uint16_t>(bits))) {
      ASSERT_TRUE(this->kFormat.IsNan(back)) << bits;
      ASSERT_EQ(back & 0x8000, bits & 0x8000) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

// The values also cross from subnormal to normal and from the largest value to infinity.
TYPED_TEST(NarrowFloat, TiesGoToEvenAndTheirNeighboursToTheNearest) {
  const float infinity = std::numeric_limits<float>::infinity();
  const int last = this->kFormat.infinity() - 1;
  for (int bits = 0; bits <= last; ++bits) {
    const double low = DoubleOf(this->kFormat, static_cast<uint16_t>(bits));
    const double high = bits < last ? DoubleOf(this->kFormat, static_cast<uint16_t>(bits + 1))
                                    : std::ldexp(1.0, this->kFormat.max_exponent + 1);
    const float tie = static_cast<float>(low + (high - low) / 2);
    ASSERT_EQ(TypeParam::FromFloat(tie).bits, bits + bits % 2);
    for (float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, infinity)}) {
      ASSERT_TRUE(this->IsRoundedRight(value));
      ASSERT_TRUE(this->IsRoundedRight(-value));
    }
  }
}

TYPED_TEST(NarrowFloat, TheExtremesOfFloat32AreRoundedRight) {
  using Limits = std::numeric_limits<float>;
  for (float value :
       {0.0f, Limits::denorm_min(), Limits::min(), std::nextafter(Limits::min(), 0.0f),
        Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
    EXPECT_TRUE(this->IsRoundedRight(value));
    EXPECT_TRUE(this->IsRoundedRight(-value));
  }
}

TYPED_TEST(NarrowFloat, NanStaysNanWhateverItsPayload) {
  for (uint32_t payload = 1; payload < (1u << 23); payload = payload * 2 + 1) {
    for (uint32_t sign : {0u, 0x80000000u}) {
      const uint16_t low = TypeParam::FromFloat(FloatOf(sign | 0x7f800000u | payload)).bits;
      const uint16_t high =
          TypeParam::FromFloat(FloatOf(sign | 0x7f800000u | ((1u << 23) - payload))).bits;
      EXPECT_TRUE(this->kFormat.IsNan(low)) << payload;
      EXPECT_TRUE(this->kFormat.IsNan(high)) << payload;
    }
  }
}

TYPED_TEST(NarrowFloat, RandomPatternsOfFloat32AreRoundedRight) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 500000; ++i) {
    ASSERT_TRUE(this->IsRoundedRight(FloatOf(static_cast<uint32_t>(random()))));
  }
}

// Most random bit patterns are outside float16's range.
TEST(Float16, RandomValuesAroundItsRangeAreRoundedRight) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<uint32_t> exponents(127 - 27, 127 + 17);
  for (int i = 0; i < 500000; ++i) {
    const float value = FloatOf((exponents(random) << 23) | (random() & 0x807fffffu));
    ASSERT_EQ(Float16::FromFloat(value).bits, NearestOf(kFormatOf<Float16>, value)) << value;
  }
}

}  // namespace
}  // namespace condacc
