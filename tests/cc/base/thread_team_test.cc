#include "cc/core/base/thread_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/base/mutex.h"
#include "cc/core/base/timer_queue.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

// Runs functions on a thread each.
class Threads {
 public:
  ~Threads() { Join(); }

  ThreadTeam::Schedule schedule() {
    return [this](std::function<void()> function) {
      ++num_scheduled_;
      threads_.emplace_back(std::move(function));
    };
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  int num_scheduled() const { return num_scheduled_; }

 private:
  std::vector<std::thread> threads_;
  std::atomic<int> num_scheduled_{0};  // Helpers read it, too.
};

// Runs a loop whose chunks wait for each other: no thread ends its first one before `number`
// threads have begun one.
void RunTogether(ThreadTeam* team, size_t number) {
  Mutex mu;
  CondVar changed;
  std::set<std::thread::id> seen;
  team->For(number, 1, [&](size_t, size_t) {
    MutexLock lock(&mu);
    seen.insert(std::this_thread::get_id());
    changed.NotifyAll();
    while (seen.size() < number) changed.Wait(&mu);
  });
  EXPECT_EQ(seen.size(), number);
}

// Lets others work, for as long as a thread polls.
void LetTimePass() {
  AdvanceClock(std::chrono::milliseconds(1));
  std::this_thread::yield();
}

TEST(ThreadTeamTest, LoopsCoverEachNumberOnce) {
  Threads threads;
  ThreadTeam team(3, threads.schedule());
  for (size_t total = 0; total < 100; ++total) {
    const size_t chunk = 1 + total % 7;
    std::vector<int> calls(total);
    team.For(total, chunk, [&](size_t begin, size_t end) {
      EXPECT_EQ(begin % chunk, 0);
      for (size_t i = begin; i < end; ++i) ++calls[i];
    });
    EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), static_cast<ptrdiff_t>(total));
  }
}

TEST(ThreadTeamTest, ALoopWaitsForChunksThatHelpersHaveBegun) {
  Threads threads;
  ThreadTeam team(1, threads.schedule());
  const std::thread::id own = std::this_thread::get_id();
  for (int i = 0; i < 5; ++i) {
    std::atomic<bool> has_begun{false}, has_ended{false}, has_returned{false};
    team.For(2, 1, [&](size_t, size_t) {
      if (std::this_thread::get_id() != own) {
        has_begun = true;
        // The loop's own thread polls for a while before it sleeps.
        while (CondVar::num_waiting() == 0 && !has_returned) LetTimePass();
        has_ended = true;
      }
      while (!has_begun) std::this_thread::yield();
    });
    EXPECT_TRUE(has_ended);
    has_returned = true;
  }
}

TEST(ThreadTeamTest, FunctionsThatAreCalledAtOnceDoNothing) {
  bool is_scheduling = false;
  int num_calls = 0;
  ThreadTeam team(1, [&](const std::function<void()>& function) {
    is_scheduling = true;
    function();
    is_scheduling = false;
    ++num_calls;
  });
  team.For(3, 1, [&](size_t, size_t) { EXPECT_FALSE(is_scheduling); });
  EXPECT_GE(num_calls, 1);
}

TEST(ThreadTeamTest, HelpersThatWaitedInVainAreReplaced) {
  Threads threads;
  ThreadTeam team(2, threads.schedule());
  RunTogether(&team, 3);
  std::atomic<bool> have_left{false};
  std::thread clock([&] {
    while (!have_left) LetTimePass();
  });
  threads.Join();  // They leave although the team is still there.
  have_left = true;
  clock.join();
  RunTogether(&team, 3);
  EXPECT_GE(threads.num_scheduled(), 4);
}

TEST(ThreadTeamTest, HelpersStayForTheNextLoop) {
  Threads threads;
  ThreadTeam team(1, threads.schedule());
  for (int i = 0; i < 200; ++i) RunTogether(&team, 2);
  EXPECT_EQ(threads.num_scheduled(), 1);
}

TEST(ThreadTeamTest, ALoopOfOneChunkCallsNobody) {
  Threads threads;
  ThreadTeam team(8, threads.schedule());
  team.For(5, 5, [](size_t, size_t) {});
  EXPECT_EQ(threads.num_scheduled(), 0);
}

TEST(ThreadTeamTest, HelpersThatDoNotComeAreCalledAgain) {
  Threads threads;
  const ThreadTeam::Schedule schedule = threads.schedule();
  bool is_first = true;
  ThreadTeam team(1, [&](std::function<void()> function) {
    if (!std::exchange(is_first, false)) schedule(std::move(function));
  });
  const std::thread::id own = std::this_thread::get_id();
  std::atomic<bool> has_help{false};
  team.For(100, 1, [&](size_t, size_t) {
    if (std::this_thread::get_id() != own) has_help = true;
    // Time passes until the helper has been called again, and then it comes.
    if (threads.num_scheduled() == 0) LetTimePass();
    while (threads.num_scheduled() > 0 && !has_help) std::this_thread::yield();
  });
  EXPECT_TRUE(has_help);
}

TEST(ThreadTeamTest, HelpersThatAreTooManyLeave) {
  Threads threads;
  const ThreadTeam::Schedule schedule = threads.schedule();
  ThreadTeam team(1, [&](const std::function<void()>& function) {
    for (int i = 0; i < 3; ++i) schedule(function);
  });
  std::atomic<int> num_active{0};
  for (int i = 0; i < 100; ++i) {
    team.For(20, 1, [&](size_t, size_t) {
      EXPECT_LE(++num_active, 2);
      std::this_thread::yield();
      --num_active;
    });
  }
}

TEST(ThreadTeamTest, ALoopDoesNotWaitForHelpersThatDoNotCome) {
  std::vector<std::function<void()>> scheduled;
  size_t sum = 0;
  {
    ThreadTeam team(
        2, [&](std::function<void()> function) { scheduled.push_back(std::move(function)); });
    for (int i = 0; i < 2; ++i) {
      team.For(10, 1, [&](size_t begin, size_t end) { sum += end - begin; });
    }
  }
  EXPECT_EQ(sum, 20);
  EXPECT_GE(scheduled.size(), 4);  // The second loop calls again those that have not come.
  for (const auto& function : scheduled) function();  // After the team has gone.
  EXPECT_EQ(sum, 20);
}

TEST(ThreadTeamTest, ALoopWorksWithoutHelpersIfTheirMemoryIsRefused) {
  int num_calls = 0;
  ThreadTeam team(2, [&](const std::function<void()>&) {
    ++num_calls;
    throw std::bad_alloc();
  });
  for (int i = 0; i < 2; ++i) {
    size_t sum = 0;
    team.For(10, 1, [&](size_t begin, size_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 10);
  }
  EXPECT_GE(num_calls, 2);
}

}  // namespace
}  // namespace condacc
