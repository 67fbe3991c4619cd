// Tests of the real queue, with the real clock. Nothing depends on when its thread gets a
// processor.
#include "cc/core/base/timer_queue.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cc/memory/page_pool.h"
#include "gtest/gtest.h"
#include "tests/cc/base/child_process.h"

namespace {

std::atomic<bool> refuses_threads{false};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  if (refuses_threads) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}

namespace condacc {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// The numbers of the functions that were called, in that order.
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

TimerQueue& Queue() { return TimerQueue::Global(); }

// Keeps the thread of the queue busy, so that nothing that is due is called meanwhile.
class BusyQueue {
 public:
  BusyQueue() {
    std::promise<void> has_begun;
    Queue().Schedule(milliseconds(0), [&has_begun, end = may_end_.get_future().share()] {
      has_begun.set_value();
      end.wait();
    });
    has_begun.get_future().wait();
  }
  ~BusyQueue() { may_end_.set_value(); }

 private:
  std::promise<void> may_end_;
};

// Returns when all functions that were due before have run.
void AwaitWhatIsDue() {
  Log log;
  Queue().Schedule(milliseconds(0), log.Entry(0));
  log.Await(1);
}

// Must be the first test: the thread is started once in a process.
TEST(TimerQueue, WithoutAThreadRefusesAFunctionAndTriesAgainForTheNext) {
  Log log;
  refuses_threads = true;
  EXPECT_EQ(Queue().Schedule(milliseconds(0), log.Entry(1)), TimerQueue::kNoTicket);
  refuses_threads = false;
  EXPECT_NE(Queue().Schedule(milliseconds(0), log.Entry(2)), TimerQueue::kNoTicket);
  EXPECT_EQ(log.Await(1), std::vector<int>{2});
}

TEST(TimerQueue, CallsTheFunctionOnceAndNotBeforeItsTime) {
  Log log;
  const auto start = TimerQueue::Clock::now();
  Queue().Schedule(milliseconds(30), log.Entry(1));
  log.Await(1);
  EXPECT_GE(TimerQueue::Clock::now() - start, milliseconds(30));
  AwaitWhatIsDue();
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
}

TEST(TimerQueue, CallsInTheOrderOfTheDeadlines) {
  Log log;
  std::vector<std::pair<TimerQueue::Ticket, int>> expected;  // Tickets begin with the deadline.
  for (int id : {0, 1, 2}) {
    expected.emplace_back(Queue().Schedule(milliseconds(90 - 30 * id), log.Entry(id)), id);
  }
  std::sort(expected.begin(), expected.end());
  const std::vector<int> fired = log.Await(3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(fired[i], expected[i].second);
}

TEST(TimerQueue, AnEarlyDeadlineDoesNotWaitForALateOneThatCameFirst) {
  Log log;
  const auto late = Queue().Schedule(hours(24), log.Entry(2));
  Queue().Schedule(milliseconds(10), log.Entry(1));
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
  Queue().Cancel(late);
}

TEST(TimerQueue, WhatIsCancelledIsNeverCalled) {
  Log log;
  {
    const BusyQueue busy;
    const auto cancelled = Queue().Schedule(milliseconds(0), log.Entry(1));
    Queue().Schedule(milliseconds(0), log.Entry(2));
    Queue().Cancel(cancelled);
  }
  EXPECT_EQ(log.Await(1), std::vector<int>{2});
}

TEST(TimerQueue, CancellingTwiceOrTooLateOrNothingIsHarmless) {
  Log log;
  const auto early = Queue().Schedule(milliseconds(0), log.Entry(1));
  log.Await(1);
  Queue().Cancel(early);
  const auto late = Queue().Schedule(hours(24), log.Entry(2));
  Queue().Cancel(late);
  Queue().Cancel(late);
  Queue().Cancel(TimerQueue::kNoTicket);
  AwaitWhatIsDue();
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
}

TEST(TimerQueue, FreesWhatTheFunctionHolds) {
  auto cancelled = std::make_shared<int>();
  auto called = std::make_shared<int>();
  Queue().Cancel(Queue().Schedule(hours(24), [cancelled] {}));
  EXPECT_EQ(cancelled.use_count(), 1);
  Queue().Schedule(milliseconds(0), [called] {});
  AwaitWhatIsDue();
  EXPECT_EQ(called.use_count(), 1);
}

TEST(TimerQueue, AFunctionMayScheduleAndCancel) {
  Log log;
  const auto other = Queue().Schedule(hours(24), log.Entry(9));
  Queue().Schedule(milliseconds(0), [&log, other] {
    Queue().Cancel(other);
    Queue().Schedule(milliseconds(0), log.Entry(1));
  });
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
}

TEST(TimerQueue, ALongFunctionDelaysNoOther) {
  Log log;
  std::promise<void> may_end;
  std::shared_future<void> end = may_end.get_future().share();
  const auto long_function = [&log, end] {
    end.wait();
    log.Entry(2)();
  };
  Queue().Schedule(milliseconds(0), long_function, /*may_block=*/true);
  Queue().Schedule(milliseconds(5), log.Entry(1));
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
  may_end.set_value();
  EXPECT_EQ(log.Await(2), (std::vector<int>{1, 2}));
}

#if !defined(__SANITIZE_THREAD__)  // It does not support threads that begin after a fork().

TEST(TimerQueue, OfAForkedProcessCallsItsOwnFunctionsOnly) {
  Log log;
  auto busy = std::make_unique<BusyQueue>();
  Queue().Schedule(milliseconds(0), log.Entry(1));
  EXPECT_TRUE(HoldsInAChild([&log] {
    Log in_child;
    Queue().Schedule(milliseconds(0), in_child.Entry(2));
    return in_child.Await(1) == std::vector<int>{2} && log.Await(0).empty();
  }));
  busy.reset();
  EXPECT_EQ(log.Await(1), std::vector<int>{1});
}

TEST(TimerQueue, OfAForkedProcessReturnsThePagesOfItsPool) {
  const auto give_page_to = [](PagePool& pool) {
    void* const begin = mmap(nullptr, 2 * kHugePageBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
    pool.Give(static_cast<char*>(begin) + before, 1, kHugePageBytes);
  };
  static PagePool& pool = *new PagePool(milliseconds(1));  // Pools are never destroyed.
  const BusyQueue busy;
  give_page_to(pool);
  EXPECT_TRUE(HoldsInAChild([&] {
    give_page_to(pool);
    while (pool.num_bytes() > 0) std::this_thread::yield();
    return true;
  }));
}

#endif

TEST(TimerQueue, ServesManyThreads) {
  constexpr int kThreads = 4, kRounds = 200;
  Log log;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < kRounds; ++i) {
        const auto ticket = Queue().Schedule(hours(1), log.Entry(2));
        Queue().Schedule(milliseconds(i % 3), log.Entry(1));
        Queue().Cancel(ticket);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log.Await(kThreads * kRounds), std::vector<int>(kThreads * kRounds, 1));
}

}  // namespace
}  // namespace condacc
