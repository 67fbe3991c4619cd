#include "cc/core/staleness/staleness_gate.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {
namespace {

using Decision = StalenessGate::Decision;

// A gate and its step variable.
struct Gate {
  StalenessGate gate;
  std::atomic<int64_t> step{0};

  Decision Decide(int64_t local_step, int64_t limit, const std::string& counter = "c") {
    Decision decision;
    const auto read = [this](int64_t* value) {
      *value = step.load();
      return true;
    };
    EXPECT_TRUE(gate.Decide(counter, local_step, limit, read, &decision));
    return decision;
  }
};

TEST(StalenessGate, OfUpdatesFromOneStepLimitZeroAcceptsOne) {
  Gate g;
  g.step = 5;
  EXPECT_TRUE(g.Decide(5, 0).accepted);
  const Decision second = g.Decide(5, 0);
  EXPECT_FALSE(second.accepted);
  EXPECT_EQ(second.staleness, 1);
}

TEST(StalenessGate, ANegativeLimitDropsEverythingThatIsNotAhead) {
  Gate g;
  EXPECT_FALSE(g.Decide(0, -1).accepted);
  EXPECT_TRUE(g.Decide(1, -1).accepted);
}

TEST(StalenessGate, ExtremeStepsDoNotWrap) {
  Gate g;
  g.step = std::numeric_limits<int64_t>::max();
  const Decision late = g.Decide(std::numeric_limits<int64_t>::min(), 1000);
  EXPECT_FALSE(late.accepted);
  EXPECT_EQ(late.staleness, std::numeric_limits<int64_t>::max());
  g.step = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(g.Decide(std::numeric_limits<int64_t>::max(), -1000).accepted);
}

TEST(StalenessGate, RemembersTheLastStalenesses) {
  Gate g;
  constexpr int64_t kMax = StalenessGate::kMaxRecent;
  for (int64_t i = 0; i < kMax + 10; ++i) g.Decide(-i, -1);
  const std::vector<int64_t> recent = g.gate.counts("c").recent;
  ASSERT_EQ(recent.size(), static_cast<size_t>(kMax));
  int64_t sum = 0;
  for (const int64_t staleness : recent) sum += staleness;
  EXPECT_EQ(sum, (10 + kMax + 9) * kMax / 2);
}

// Workers compute for a moment, ask the gate, apply and report; some fail. No two updates of one
// step are accepted.
TEST(StalenessGate, ManyThreadsNeverApplyTwoUpdatesOfOneStep) {
  constexpr int kThreads = 4;
  constexpr int kTries = 20000;
  Gate g;
  std::vector<std::atomic<int>> applied(kThreads * kTries + 1);
  std::atomic<int64_t> num_applied{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTries; ++i) {
        const int64_t local_step = g.step.load();
        if (i % 16 == t) std::this_thread::yield();
        if (!g.Decide(local_step, 0).accepted) continue;
        const bool fails = i % 7 == 0;
        if (!fails) {
          ++applied[local_step];
          ++num_applied;
          ++g.step;
        }
        g.gate.End("c", !fails);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& times : applied) ASSERT_LE(times.load(), 1);
  EXPECT_EQ(g.step.load(), num_applied.load());
  EXPECT_EQ(g.gate.counts("c").num_accepted, num_applied.load());
  EXPECT_EQ(g.gate.num_open(), 0);
}

TEST(StalenessGate, AStepThatWasReadBeforeAnotherDecisionIsReadAgain) {
  Gate g;
  int num_reads = 0;
  const auto read = [&](int64_t* value) {
    *value = g.step.load();
    // Another update is accepted, then applied, after the variable was read and before the
    // decision.
    if (++num_reads == 1) {
      EXPECT_TRUE(g.Decide(0, 0).accepted);
    }
    if (num_reads == 2) {
      ++g.step;
      g.gate.End("c", /*applied=*/true);
    }
    return true;
  };
  Decision decision;
  EXPECT_TRUE(g.gate.Decide("c", 0, 0, read, &decision));
  EXPECT_EQ(num_reads, 3);
  EXPECT_FALSE(decision.accepted);
  EXPECT_EQ(decision.staleness, 1);
}

}  // namespace
}  // namespace condacc
