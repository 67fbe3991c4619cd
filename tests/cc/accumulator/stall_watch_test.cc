#include "cc/core/accumulator/stall_watch.h"

#include <chrono>
#include <optional>

#include "cc/core/base/timer_queue.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

StallWatch::Clock::time_point Ago(seconds duration) { return StallWatch::Clock::now() - duration; }

StallReport Described(const StallWatch& watch,
                      std::optional<StallWatch::Clock::time_point> began = std::nullopt) {
  StallReport report{};
  watch.Describe(began, &report);
  return report;
}

TEST(StallWatch, AReportIsDueAfterTheTimeoutAndThenWhenTheStallHasLastedTwiceAsLong) {
  StallWatch watch(seconds(50));
  EXPECT_TRUE(watch.is_enabled());
  EXPECT_EQ(watch.DueIn(Ago(seconds(20))), seconds(30));
  EXPECT_EQ(watch.DueIn(Ago(seconds(60))), seconds(0));
  EXPECT_FALSE(watch.IsTakeDue(Ago(seconds(40))));
  EXPECT_TRUE(watch.IsTakeDue(Ago(seconds(60))));
  EXPECT_FALSE(watch.IsTakeDue(Ago(seconds(110))));
  EXPECT_TRUE(watch.IsTakeDue(Ago(seconds(130))));
}

TEST(StallWatch, WithoutATimeoutNothingIsDue) {
  StallWatch watch{seconds(0)};
  EXPECT_FALSE(watch.is_enabled());
  watch.NoteRefused();
  EXPECT_FALSE(watch.IsTakeDue(Ago(hours(1))));
  EXPECT_FALSE(watch.IsTryDue());
}

TEST(StallWatch, TheWaitsOfCancelledTakesCountOnceUntilATakeIsServed) {
  StallWatch watch(seconds(50));
  watch.NoteCancelled(Ago(seconds(60)));
  watch.NoteCancelled(Ago(seconds(60)));  // The same minute.
  EXPECT_EQ(watch.DueIn(Ago(seconds(0))), seconds(0));
  EXPECT_EQ(Described(watch, Ago(seconds(60))).waited, seconds(60));
  EXPECT_TRUE(watch.IsTakeDue(Ago(seconds(0))));
  EXPECT_FALSE(watch.IsTakeDue(Ago(seconds(0))));
  watch.NoteServed();
  EXPECT_EQ(Described(watch, Ago(seconds(60))).waited, seconds(0));
  EXPECT_EQ(watch.DueIn(Ago(seconds(60))), seconds(50));
}

TEST(StallWatch, TriesAreReportedOnlyAfterARefusalAndUntilAGradientIsAdded) {
  StallWatch watch{seconds(50)};
  EXPECT_FALSE(watch.IsTryDue());
  EXPECT_FALSE(Described(watch).refuses_all_since);
  watch.NoteRefused();
  AdvanceClock(seconds(49));
  EXPECT_FALSE(watch.IsTryDue());
  AdvanceClock(seconds(1));
  EXPECT_TRUE(watch.IsTryDue());
  const StallReport report = Described(watch);
  EXPECT_TRUE(report.is_try && report.refuses_all_since);
  EXPECT_FALSE(report.has_ever_added);
  watch.NoteAdded();
  AdvanceClock(seconds(50));
  EXPECT_FALSE(watch.IsTryDue());
  EXPECT_FALSE(Described(watch).refuses_all_since);
  EXPECT_TRUE(Described(watch).has_ever_added);
}

TEST(StallWatch, ATryIsNotDueBeforeTheTimeout) {
  StallWatch watch{hours(1)};
  watch.NoteRefused();
  EXPECT_FALSE(watch.IsTryDue());
  EXPECT_FALSE(Described(watch, Ago(seconds(1))).is_try);
}

}  // namespace
}  // namespace condacc
