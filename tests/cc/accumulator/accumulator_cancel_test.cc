// Tests of cancellation, of completions, and of the objects that are kept alive while a take waits.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/timer_queue.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/fake_sum.h"

namespace condacc {
namespace {

class CancelTest : public testing::Test {
 protected:
  void Apply(int64_t number) {
    ASSERT_TRUE(accumulator_.Apply(100, Owned(number), workspace_).is_added());
  }
  void Request(const FakeTake& take) { accumulator_.Request(take.ptr(), nullptr, workspace_); }
  void Cancel(const FakeTake& take) { accumulator_.Cancel(take.ptr(), workspace_); }
  static void ExpectCancelled(const FakeTake& take) {
    ASSERT_EQ(take.num_completions(), 1);
    EXPECT_EQ(take.status().code(), StatusCode::kCancelled);
    EXPECT_NE(take.status().message().find("cancelled"), std::string::npos);
  }

  FakeWorkspace workspace_;
  Accumulator accumulator_{TestedOptions()};
};

TEST_F(CancelTest, CancellingTheFrontServesATakeBehindItThatIsReady) {
  FakeTake front(3), behind(2), last(1);
  for (const FakeTake* take : {&front, &behind, &last}) Request(*take);
  Apply(1);
  Apply(2);
  Cancel(front);
  ExpectCancelled(front);
  ExpectServed(behind, 3);
  EXPECT_FALSE(last.is_done());
  Apply(4);
  ExpectServed(last, 4);
}

// The takes complete with a value from an apply, with an error, and by a cancellation.
TEST_F(CancelTest, CompletionsMayCallTheAccumulator) {
  std::vector<int64_t> seen;
  const auto new_take = [this, &seen](int64_t num_required) {
    return std::make_shared<PendingTake>(num_required, [this, &seen](const Status&, Value*) {
      seen.push_back(accumulator_.num_accumulated());
      Apply(8);
      FakeTake again(1);
      Request(again);
      ExpectServed(again, 8);
    });
  };
  accumulator_.Request(new_take(1), nullptr, workspace_);
  Apply(1);
  EXPECT_EQ(seen.size(), 1u);
  accumulator_.Request(new_take(0), nullptr, workspace_);
  EXPECT_EQ(seen.size(), 2u);
  const auto cancelled = new_take(1);
  accumulator_.Request(cancelled, nullptr, workspace_);
  accumulator_.Cancel(cancelled, workspace_);
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 0, 0}));
}

TEST_F(CancelTest, ACompletionIsFreedOnceItHasRun) {
  Apply(1);
  for (int64_t num_required : {0, 1, 2}) {
    auto held = std::make_shared<int>();
    const auto take = std::make_shared<PendingTake>(num_required, [held](const Status&, Value*) {});
    accumulator_.Request(take, nullptr, workspace_);
    if (num_required == 2) accumulator_.Cancel(take, workspace_);
    EXPECT_EQ(held.use_count(), 1) << num_required;
  }
}

class StallTest : public CancelTest {
 protected:
  using Waits = std::vector<StallWatch::Clock::duration>;

  static constexpr std::chrono::seconds kTimeout{60};

  std::shared_ptr<Accumulator> Make(std::chrono::milliseconds timeout) {
    auto options = TestedOptions();
    options.stall_timeout = timeout;
    options.on_stall = [this](const StallReport& report) { reports_.push_back(report); };
    return std::make_shared<Accumulator>(std::move(options));
  }
  void Apply(Accumulator& accumulator, int64_t local_step) {
    ASSERT_TRUE(accumulator.Apply(local_step, Owned(1), workspace_).ok());
  }
  // Moves the clock on, and returns how long the stalls had lasted when they were reported.
  Waits ReportedIn(std::chrono::seconds duration) {
    reports_.clear();
    AdvanceClock(duration);
    Waits waited;
    for (const StallReport& report : reports_) waited.push_back(report.waited);
    return waited;
  }

  std::vector<StallReport> reports_;
};

TEST_F(StallTest, AStallIsReportedOnceForAllTakesThatWaitAndTheyAreStillServed) {
  const auto accumulator = Make(kTimeout);
  accumulator->SetGlobalStep(3);
  Apply(*accumulator, 2);
  Apply(*accumulator, 3);
  FakeTake first(3), second(1);
  accumulator->Request(first.ptr(), accumulator, workspace_);
  accumulator->Request(second.ptr(), accumulator, workspace_);
  ASSERT_EQ(ReportedIn(kTimeout), Waits{kTimeout});
  const StallReport& report = reports_[0];
  Apply(*accumulator, 3);
  Apply(*accumulator, 3);
  Apply(*accumulator, 4);
  ExpectServed(first, 3);
  ExpectServed(second, 1);
  EXPECT_FALSE(report.is_try);
  EXPECT_EQ(report.num_accumulated, 1);
  EXPECT_EQ(report.num_required, 3) << "the second take has enough, and waits for the first";
  EXPECT_EQ(report.num_takes_behind, 1);
  EXPECT_EQ(report.global_step, 3);
  EXPECT_EQ(report.num_dropped, 1);
  EXPECT_EQ(report.last_dropped_step, 2);
  EXPECT_TRUE(report.has_ever_added);
  EXPECT_FALSE(report.refuses_all_since);
  EXPECT_EQ(ReportedIn(10 * kTimeout), Waits{}) << "no take waits any more";
}

TEST_F(StallTest, AStallIsReportedAgainWheneverItHasLastedTwiceAsLong) {
  const auto accumulator = Make(kTimeout);
  FakeTake take(1);
  accumulator->Request(take.ptr(), accumulator, workspace_);
  EXPECT_EQ(ReportedIn(9 * kTimeout), (Waits{kTimeout, 2 * kTimeout, 4 * kTimeout, 8 * kTimeout}));
  EXPECT_FALSE(reports_[0].has_ever_added);
  Apply(*accumulator, 0);
  ExpectServed(take, 1);
}

TEST_F(StallTest, TheNextTakeIsReportedAfterTheTimeoutHoweverLongThePreviousOneHasWaited) {
  const auto accumulator = Make(kTimeout);
  FakeTake first(1), second(1);
  accumulator->Request(first.ptr(), accumulator, workspace_);
  accumulator->Request(second.ptr(), accumulator, workspace_);
  EXPECT_EQ(ReportedIn(4 * kTimeout), (Waits{kTimeout, 2 * kTimeout, 4 * kTimeout}));
  Apply(*accumulator, 0);
  EXPECT_EQ(ReportedIn(kTimeout), Waits{kTimeout});
  EXPECT_EQ(reports_[0].num_takes_behind, 0);
  accumulator->Cancel(second.ptr(), workspace_);
}

TEST_F(StallTest, TakesThatAreCancelledAndTriedAgainAreReported) {
  const auto accumulator = Make(4 * kTimeout);
  for (int i = 1; i <= 4; ++i) {
    FakeTake take(2);
    accumulator->Request(take.ptr(), accumulator, workspace_);
    EXPECT_EQ(ReportedIn(kTimeout), i < 4 ? Waits{} : Waits{4 * kTimeout}) << i;
    accumulator->Cancel(take.ptr(), workspace_);
  }
}

TEST_F(StallTest, TakesThatDoNotWaitAreReportedWhenAllGradientsAreRefused) {
  const auto accumulator = Make(kTimeout);
  accumulator->SetGlobalStep(3);
  const auto try_take = [&] { return accumulator->TryServe(FakeTake(2).ptr(), workspace_); };
  AdvanceClock(2 * kTimeout);
  EXPECT_FALSE(try_take());
  EXPECT_TRUE(reports_.empty()) << "no gradient was refused";
  EXPECT_FALSE(accumulator->Apply(2, Owned(1), workspace_).is_added());
  AdvanceClock(kTimeout / 2);
  EXPECT_FALSE(accumulator->Apply(2, Owned(1), workspace_).is_added());
  EXPECT_FALSE(try_take());
  EXPECT_TRUE(reports_.empty()) << "they have not been refused for long enough";
  AdvanceClock(kTimeout / 2);
  EXPECT_FALSE(try_take());
  ASSERT_EQ(reports_.size(), 1u);
  const StallReport& report = reports_[0];
  EXPECT_TRUE(report.is_try && report.refuses_all_since);
  EXPECT_EQ(report.waited, kTimeout);
  EXPECT_EQ(report.num_required, 2);
  EXPECT_EQ(report.num_dropped, 2);
  // A gradient that is added begins the time anew.
  Apply(*accumulator, 3);
  AdvanceClock(2 * kTimeout);
  EXPECT_FALSE(try_take());
  EXPECT_EQ(reports_.size(), 1u);
}

TEST_F(StallTest, RefusedGradientsOfContributorsAreNotedToo) {
  const auto accumulator = Make(kTimeout);
  const auto apply = [&](int64_t local_step, int64_t contributor) {
    return accumulator->Apply(local_step, By(contributor, Owned(1)), workspace_).outcome();
  };
  EXPECT_EQ(apply(0, 5), ApplyOutcome::kAdded);
  EXPECT_EQ(apply(0, 5), ApplyOutcome::kDuplicate);
  EXPECT_EQ(apply(7, 6), ApplyOutcome::kAhead);
  EXPECT_EQ(apply(8, 5), ApplyOutcome::kAhead);
  FakeTake take(2);
  accumulator->Request(take.ptr(), accumulator, workspace_);
  ASSERT_EQ(ReportedIn(kTimeout), Waits{kTimeout});
  const StallReport& report = reports_[0];
  EXPECT_EQ(report.num_dropped, 0);
  EXPECT_TRUE(report.refuses_all_since);
  accumulator->Cancel(take.ptr(), workspace_);
}

TEST_F(StallTest, WhatIsKeptAliveForAWaitingTakeIsFreedWhenItEnds) {
  const auto accumulator_of_test = Make(std::chrono::hours(1));
  Accumulator& accumulator = *accumulator_of_test;
  auto kept = std::make_shared<int>();
  FakeTake served(1), cancelled(1), failed(0);
  for (const FakeTake* take : {&served, &cancelled, &failed}) {
    accumulator.Request(take->ptr(), kept, workspace_);
  }
  // Each waiting take and its timer hold a reference. The take that failed does not wait.
  EXPECT_EQ(kept.use_count(), 1 + 2 * 2);
  accumulator.Cancel(cancelled.ptr(), workspace_);
  EXPECT_EQ(kept.use_count(), 1 + 2);
  ASSERT_TRUE(accumulator.Apply(0, Owned(1), workspace_).ok());
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_TRUE(reports_.empty());
}

}  // namespace
}  // namespace condacc
