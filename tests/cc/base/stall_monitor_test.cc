#include "cc/core/base/stall_monitor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// What fired, in that order.
class Log {
 public:
  std::function<void()> Entry(int id) {
    return [this, id] {
      std::lock_guard<std::mutex> lock(mutex_);
      fired_.push_back(id);
      changed_.notify_all();
    };
  }
  std::vector<int> Await(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, count] { return fired_.size() >= count; });
    return fired_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> fired_;
};

StallMonitor& Monitor() { return StallMonitor::Global(); }

// Returns when all that was due before has run.
void AwaitWhatIsDue() {
  Log log;
  Monitor().Watch(milliseconds(0), log.Entry(0));
  log.Await(1);
}

TEST(StallMonitor, CallsTheFunctionOnceAndNotBeforeItsTime) {
  Log log;
  const auto start = StallMonitor::Clock::now();
  Monitor().Watch(milliseconds(30), log.Entry(1));
  log.Await(1);
  EXPECT_GE(StallMonitor::Clock::now() - start, milliseconds(30));
  AwaitWhatIsDue();
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
}

TEST(StallMonitor, CallsInTheOrderOfTheDeadlines) {
  Log log;
  std::vector<std::pair<StallMonitor::Ticket, int>> expected;  // tickets begin with the deadline
  for (int id : {0, 1, 2}) {
    expected.emplace_back(Monitor().Watch(milliseconds(90 - 30 * id), log.Entry(id)), id);
  }
  std::sort(expected.begin(), expected.end());
  const std::vector<int> fired = log.Await(3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(fired[i], expected[i].second);
}

TEST(StallMonitor, AnEarlyDeadlineDoesNotWaitForALateOneThatCameFirst) {
  Log log;
  const auto late = Monitor().Watch(hours(24), log.Entry(2));
  Monitor().Watch(milliseconds(10), log.Entry(1));
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
  Monitor().Unwatch(late);
}

TEST(StallMonitor, WhatIsTakenBackIsNeverCalled) {
  Log log;
  const auto taken_back = Monitor().Watch(milliseconds(300), log.Entry(1));
  Monitor().Unwatch(taken_back);
  Monitor().Watch(milliseconds(300), log.Entry(2));
  EXPECT_EQ(log.Await(1), std::vector<int>{2});
}

TEST(StallMonitor, TakingBackTwiceOrTooLateOrNothingIsHarmless) {
  Log log;
  const auto early = Monitor().Watch(milliseconds(0), log.Entry(1));
  log.Await(1);
  Monitor().Unwatch(early);
  const auto late = Monitor().Watch(hours(24), log.Entry(2));
  Monitor().Unwatch(late);
  Monitor().Unwatch(late);
  Monitor().Unwatch(StallMonitor::kNoTicket);
  AwaitWhatIsDue();
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
}

TEST(StallMonitor, LetsGoOfWhatTheFunctionHolds) {
  auto unwatched = std::make_shared<int>();
  auto called = std::make_shared<int>();
  Monitor().Unwatch(Monitor().Watch(hours(24), [unwatched] {}));
  EXPECT_EQ(unwatched.use_count(), 1);
  Monitor().Watch(milliseconds(0), [called] {});
  AwaitWhatIsDue();
  EXPECT_EQ(called.use_count(), 1);
}

TEST(StallMonitor, AFunctionMayWatchAndUnwatch) {
  Log log;
  const auto other = Monitor().Watch(hours(24), log.Entry(9));
  Monitor().Watch(milliseconds(0), [&log, other] {
    Monitor().Unwatch(other);
    Monitor().Watch(milliseconds(0), log.Entry(1));
  });
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
}

TEST(StallMonitor, ServesManyThreads) {
  constexpr int kThreads = 4, kRounds = 200;
  Log log;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < kRounds; ++i) {
        const auto ticket = Monitor().Watch(hours(1), log.Entry(2));
        Monitor().Watch(milliseconds(i % 3), log.Entry(1));
        Monitor().Unwatch(ticket);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log.Await(kThreads * kRounds), std::vector<int>(kThreads * kRounds, 1));
}

}  // namespace
}  // namespace condacc
