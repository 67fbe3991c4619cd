#include "cc/core/accumulator/step_counter.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace condacc {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(StepCounter, StartsAtStepZeroWithNothingDropped) {
  StepCounter gate;
  EXPECT_EQ(gate.global_step(), 0);
  EXPECT_EQ(gate.num_dropped(), 0);
}

TEST(StepCounter, DoesNotDropTheGlobalStepAndLaterOnes) {
  StepCounter gate;
  gate.Set(5);
  EXPECT_FALSE(gate.DropIfStale(5));
  EXPECT_FALSE(gate.DropIfStale(6));
  EXPECT_FALSE(gate.DropIfStale(kMax));
  EXPECT_EQ(gate.num_dropped(), 0);
}

TEST(StepCounter, DropsAndCountsEarlierSteps) {
  StepCounter gate;
  gate.Set(5);
  EXPECT_TRUE(gate.DropIfStale(4));
  EXPECT_TRUE(gate.DropIfStale(kMin));
  EXPECT_EQ(gate.num_dropped(), 2);
}

TEST(StepCounter, AdvanceMovesOnByOne) {
  StepCounter gate;
  gate.Advance();
  EXPECT_EQ(gate.global_step(), 1);
  EXPECT_TRUE(gate.DropIfStale(0));
  EXPECT_FALSE(gate.DropIfStale(1));
}

TEST(StepCounter, SetReturnsTheStepItReplacesAndMayGoBack) {
  StepCounter gate;
  EXPECT_EQ(gate.Set(7), 0);
  EXPECT_EQ(gate.Set(-3), 7);
  EXPECT_EQ(gate.global_step(), -3);
  EXPECT_FALSE(gate.DropIfStale(-3));
  EXPECT_TRUE(gate.DropIfStale(-4));
}

TEST(StepCounter, SettingTheStepKeepsTheDropCounter) {
  StepCounter gate;
  EXPECT_TRUE(gate.DropIfStale(-1));
  gate.Set(100);
  EXPECT_EQ(gate.num_dropped(), 1);
}

TEST(StepCounter, CannotAdvanceFromTheLastStepButCanFromTheOneBefore) {
  StepCounter gate;
  gate.Set(kMax - 1);
  ASSERT_TRUE(gate.CanAdvance());
  gate.Advance();
  EXPECT_EQ(gate.global_step(), kMax);
  EXPECT_FALSE(gate.CanAdvance());
  EXPECT_FALSE(gate.DropIfStale(kMax));
  EXPECT_TRUE(gate.DropIfStale(kMax - 1));
  gate.Set(kMin);
  EXPECT_TRUE(gate.CanAdvance());
}

}  // namespace
}  // namespace condacc
