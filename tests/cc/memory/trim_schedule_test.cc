#include "cc/memory/trim_schedule.h"

#include <chrono>

#include "gtest/gtest.h"

namespace condacc {
namespace {

constexpr TrimSchedule::Clock::time_point kStart{std::chrono::hours(1)};
constexpr std::chrono::seconds kSecond{1};

TEST(TrimScheduleTest, IsDueWhenEnoughWasFreedInAll) {
  TrimSchedule schedule;
  EXPECT_FALSE(schedule.IsDueAfter(TrimSchedule::kMinBytes - 1, kStart));
  EXPECT_TRUE(schedule.IsDueAfter(1, kStart));
}

TEST(TrimScheduleTest, IsNotDueAgainBeforeTheIntervalIsOver) {
  TrimSchedule schedule;
  EXPECT_TRUE(schedule.IsDueAfter(TrimSchedule::kMinBytes, kStart));
  EXPECT_FALSE(schedule.IsDueAfter(10 * TrimSchedule::kMinBytes, kStart + 9 * kSecond));
  EXPECT_TRUE(schedule.IsDueAfter(1, kStart + 10 * kSecond)) << "what was freed meanwhile counts";
}

TEST(TrimScheduleTest, CountsAnewAfterItWasDue) {
  TrimSchedule schedule;
  EXPECT_TRUE(schedule.IsDueAfter(3 * TrimSchedule::kMinBytes, kStart));
  EXPECT_FALSE(schedule.IsDueAfter(TrimSchedule::kMinBytes - 1, kStart + 20 * kSecond));
}

}  // namespace
}  // namespace condacc
