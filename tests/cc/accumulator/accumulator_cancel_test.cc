// Tests of cancellation, of completions, and of the objects that are kept alive while a take waits.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
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
    EXPECT_NE(take.status().message().find("'tested'"), std::string::npos);
  }

  FakeWorkspace workspace_;
  Accumulator accumulator_{TestedOptions()};
};

TEST_F(CancelTest, AnyOfSeveralWaitingTakesCanBeCancelled) {
  for (int cancelled : {0, 1, 2}) {
    const std::vector<FakeTake> takes = {FakeTake(1), FakeTake(1), FakeTake(1)};
    for (const FakeTake& take : takes) Request(take);
    Cancel(takes[static_cast<size_t>(cancelled)]);
    Apply(1);
    Apply(2);
    int64_t next = 1;
    for (int i : {0, 1, 2}) {
      if (i == cancelled) {
        ExpectCancelled(takes[static_cast<size_t>(i)]);
      } else {
        ExpectServed(takes[static_cast<size_t>(i)], next++);
      }
    }
    EXPECT_EQ(accumulator_.num_accumulated(), 0);
  }
  EXPECT_EQ(accumulator_.global_step(), 6);
}

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

TEST_F(CancelTest, CancellingTheFrontServesNoTakeThatIsNotReady) {
  FakeTake front(3), behind(2);
  Request(front);
  Request(behind);
  Apply(1);
  Cancel(front);
  EXPECT_FALSE(behind.is_done());
  Apply(2);
  ExpectServed(behind, 3);
}

TEST_F(CancelTest, CancellingBehindTheFrontServesNobody) {
  FakeTake front(3), behind(1), last(1);
  for (const FakeTake* take : {&front, &behind, &last}) Request(*take);
  Apply(1);
  Cancel(behind);
  ExpectCancelled(behind);
  EXPECT_FALSE(front.is_done());
  EXPECT_FALSE(last.is_done());
}

TEST_F(CancelTest, ATakeCancelledBeforeItsRequestEndsWithIt) {
  Apply(1);
  FakeTake ready(1), not_ready(2), tried(1);
  for (const FakeTake* take : {&ready, &not_ready, &tried}) {
    Cancel(*take);
    EXPECT_FALSE(take->is_done());
  }
  Request(ready);
  Request(not_ready);
  EXPECT_TRUE(accumulator_.TryServe(tried.ptr(), workspace_));
  for (const FakeTake* take : {&ready, &not_ready, &tried}) ExpectCancelled(*take);
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
  EXPECT_EQ(accumulator_.global_step(), 0);
}

TEST_F(CancelTest, CancellingAServedOrCancelledTakeDoesNothing) {
  Apply(1);
  FakeTake served(1), cancelled(1);
  Request(served);
  Request(cancelled);
  for (int i = 0; i < 2; ++i) {
    Cancel(served);
    Cancel(cancelled);
  }
  ExpectServed(served, 1);
  ExpectCancelled(cancelled);
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
  static Accumulator::Options Options(std::chrono::milliseconds timeout,
                                      std::vector<StallReport>* reports, std::mutex* mutex,
                                      std::condition_variable* changed) {
    auto options = TestedOptions();
    options.stall_timeout = timeout;
    options.on_stall = [=](const StallReport& report) {
      std::lock_guard<std::mutex> lock(*mutex);
      reports->push_back(report);
      changed->notify_all();
    };
    return options;
  }

  std::vector<StallReport> reports_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

TEST_F(StallTest, ATakeThatWaitsForLongIsReportedOnceAndStillServed) {
  auto accumulator = std::make_shared<Accumulator>(
      Options(std::chrono::milliseconds(20), &reports_, &mutex_, &changed_));
  accumulator->SetGlobalStep(3);
  for (int64_t local_step : {2, 3}) {
    ASSERT_TRUE(accumulator->Apply(local_step, Owned(1), workspace_).ok());
  }
  FakeTake first(2), second(1);
  accumulator->Request(first.ptr(), accumulator, workspace_);
  accumulator->Request(second.ptr(), accumulator, workspace_);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return reports_.size() >= 2; });
  lock.unlock();
  ASSERT_TRUE(accumulator->Apply(3, Owned(1), workspace_).ok());
  ASSERT_TRUE(accumulator->Apply(4, Owned(1), workspace_).ok());
  ExpectServed(first, 2);
  ExpectServed(second, 1);
  ASSERT_EQ(reports_.size(), 2u);
  EXPECT_EQ(reports_[0].num_accumulated, 1);
  EXPECT_EQ(reports_[0].num_required, 2);
  EXPECT_EQ(reports_[0].global_step, 3);
  EXPECT_EQ(reports_[0].num_dropped, 1);
  EXPECT_EQ(reports_[0].last_dropped_step, 2);
  EXPECT_EQ(reports_[1].num_required, 1);
}

TEST_F(StallTest, WhatIsKeptAliveForAWaitingTakeIsFreedWhenItEnds) {
  Accumulator accumulator(Options(std::chrono::hours(1), &reports_, &mutex_, &changed_));
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
