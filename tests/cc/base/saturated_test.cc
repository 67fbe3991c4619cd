#include "cc/core/base/saturated.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace condacc {
namespace {

TEST(Saturated, ResultsOutOfRangeAreClamped) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(SaturatedAdd(kMost, 1), kMost);
  EXPECT_EQ(SaturatedAdd(kLeast, -1), kLeast);
  EXPECT_EQ(SaturatedSubtract(kMost, -1), kMost);
  EXPECT_EQ(SaturatedSubtract(kLeast, 1), kLeast);
  EXPECT_EQ(SaturatedSubtract(-5, -3), -2);
}

}  // namespace
}  // namespace condacc
