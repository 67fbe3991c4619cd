#include "cc/core/accumulator/step_counter.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace condacc {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxStep = std::numeric_limits<int64_t>::max();

TEST(StepCounter, StartsAtStepZeroWithNothingDropped) {
  StepCounter counter;
  EXPECT_EQ(counter.global_step(), 0);
  EXPECT_EQ(counter.num_dropped(), 0);
}

TEST(StepCounter, DoesNotDropTheGlobalStepAndLaterOnes) {
  StepCounter counter;
  counter.Set(5);
  EXPECT_FALSE(counter.DropIfStale(5));
  EXPECT_FALSE(counter.DropIfStale(6));
  EXPECT_FALSE(counter.DropIfStale(kMaxStep));
  EXPECT_EQ(counter.num_dropped(), 0);
}

TEST(StepCounter, DropsAndCountsEarlierSteps) {
  StepCounter counter;
  counter.Set(5);
  EXPECT_TRUE(counter.DropIfStale(4));
  EXPECT_TRUE(counter.DropIfStale(kMin));
  EXPECT_EQ(counter.num_dropped(), 2);
}

TEST(StepCounter, AdvanceMovesOnByOne) {
  StepCounter counter;
  counter.Advance();
  EXPECT_EQ(counter.global_step(), 1);
  EXPECT_TRUE(counter.DropIfStale(0));
  EXPECT_FALSE(counter.DropIfStale(1));
}

TEST(StepCounter, SetReturnsTheStepItReplacesAndMayGoBack) {
  StepCounter counter;
  EXPECT_EQ(counter.Set(7), 0);
  EXPECT_EQ(counter.Set(-3), 7);
  EXPECT_EQ(counter.global_step(), -3);
  EXPECT_FALSE(counter.DropIfStale(-3));
  EXPECT_TRUE(counter.DropIfStale(-4));
}

TEST(StepCounter, SettingTheStepKeepsTheDropCounter) {
  StepCounter counter;
  EXPECT_TRUE(counter.DropIfStale(-1));
  counter.Set(100);
  EXPECT_EQ(counter.num_dropped(), 1);
}

TEST(StepCounter, CannotAdvanceFromTheLastStepButCanFromTheOneBefore) {
  StepCounter counter;
  counter.Set(kMaxStep - 1);
  ASSERT_TRUE(counter.CanAdvance());
  counter.Advance();
  EXPECT_EQ(counter.global_step(), kMaxStep);
  EXPECT_FALSE(counter.CanAdvance());
  EXPECT_FALSE(counter.DropIfStale(kMaxStep));
  EXPECT_TRUE(counter.DropIfStale(kMaxStep - 1));
  counter.Set(kMin);
  EXPECT_TRUE(counter.CanAdvance());
}

}  // namespace
}  // namespace condacc
