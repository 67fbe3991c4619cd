// Tests that schedules can be run again, and that the explorer detects failures.
#include "tests/cc/explorer/explorer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cc/explorer/fibers/coverage.h"
#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/fibers/schedule_id.h"
#include "tests/cc/explorer/fibers/strategy.h"

namespace condacc::explorer {
namespace {

ScheduleId Pct(const std::string& program, uint64_t seed, int64_t length) {
  return {program, StrategyKind::kPct, seed, length};
}

ScheduleId AtRandom(const std::string& program, uint64_t seed) {
  return {program, StrategyKind::kRandom, seed, 0};
}

// Runs fibers with these bodies.
RunResult RunAll(const std::vector<std::function<void()>>& bodies) {
  BeginRun(MakeStrategy(AtRandom("", 1)), 1, Prints::kNothing);
  for (size_t i = 0; i < bodies.size(); ++i) Spawn("fiber " + std::to_string(i), bodies[i]);
  RunFibers();
  return EndRun();
}

TEST(ExplorerTest, AReplayedScheduleHasTheSameTrace) {
  for (const char* const program :
       {"dense", "sparse", "device", "gate", "bundle", "staleness", "tower"}) {
    std::set<uint64_t> traces;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      for (const ScheduleId& id : {AtRandom(program, seed), Pct(program, seed, 200)}) {
        const RunResult first = RunSchedule(id);
        // Other schedules in between must not matter.
        RunSchedule(AtRandom("gate", seed + 1000));
        const std::optional<ScheduleId> parsed = ScheduleId::Parse(id.ToString());
        ASSERT_TRUE(parsed.has_value()) << id.ToString();
        const RunResult second = RunSchedule(*parsed);
        EXPECT_EQ(first.trace, second.trace) << id.ToString();
        EXPECT_EQ(first.num_points, second.num_points) << id.ToString();
        traces.insert(first.trace);
      }
    }
    EXPECT_GE(traces.size(), 30u) << "Schedules of " << program << " hardly differ.";
  }
}

TEST(ExplorerTest, AFailureIsReplayedByItsText) {
  const Exploration exploration = Explore("lost_update", 1, 1000);
  ASSERT_EQ(exploration.failure, "an update was lost");
  const std::optional<ScheduleId> failed = ScheduleId::Parse(exploration.failed);
  ASSERT_TRUE(failed.has_value()) << exploration.failed;
  EXPECT_EQ(RunSchedule(*failed).failure, "an update was lost");
}

TEST(ExplorerTest, BothStrategiesFindALostUpdateAndMissItInOtherSchedules) {
  const int64_t length = RunSchedule(AtRandom("lost_update", 1)).num_points;
  int num_failed_at_random = 0;
  int num_failed_by_pct = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    num_failed_at_random += RunSchedule(AtRandom("lost_update", seed)).failure.empty() ? 0 : 1;
    num_failed_by_pct += RunSchedule(Pct("lost_update", seed, length)).failure.empty() ? 0 : 1;
  }
  EXPECT_GT(num_failed_at_random, 10);
  EXPECT_LT(num_failed_at_random, 990);
  EXPECT_GT(num_failed_by_pct, 10);
  EXPECT_LT(num_failed_by_pct, 500);
}

TEST(ExplorerTest, ATextThatNamesNoScheduleIsRefused) {
  for (const char* const text : {"", "gate", "gate:random:seed=", "gate:random:seed=1x",
                                 "gate:pct:seed=1", "gate:other:seed=1", "gate:random:seed=01"}) {
    EXPECT_FALSE(ScheduleId::Parse(text).has_value()) << text;
  }
}

TEST(FibersTest, OperatorNewRefusesMemoryToTheFiberThatAskedForIt) {
  int num_refused = 0;
  const auto allocate = [&num_refused] {
    for (int i = 0; i < 100; ++i) {
      Point("goes on");
      try {
        ::operator delete(::operator new(sizeof i));
      } catch (const std::bad_alloc&) {
        ++num_refused;
      }
    }
  };
  const RunResult result = RunAll({[&] {
                                     const NewRefusal refusal(50);
                                     allocate();
                                   },
                                   [&] {
                                     const NewRefusal refusal(50);
                                     const NewPermit permit;
                                     allocate();
                                   },
                                   allocate});
  EXPECT_TRUE(result.failure.empty());
  EXPECT_GT(num_refused, 20);
  EXPECT_LT(num_refused, 80);
}

TEST(CoverageTest, StatesAreCountedByNameAndNumbers) {
  for (int i = 0; i < 3; ++i) Reached("a test", i % 2);
  Reached("another test");
  int64_t count = 0;
  for (const State& state : ReachedStates()) {
    if (state.what == "a test" && state.numbers[0] == 0) count += state.count;
  }
  EXPECT_EQ(count, 2);
}

TEST(FibersTest, AFiberThatIsBlockedForEverIsReported) {
  const void* lock = nullptr;
  const RunResult result = RunAll({[&] { Lock(&lock); }, [&] { Lock(&lock); }});
  EXPECT_EQ(result.blocked.size(), 1u);
}

TEST(FibersTest, AProgramThatDoesNotEndIsReported) {
  const RunResult result = RunAll({[] {
    while (true) Point("goes on");
  }});
  EXPECT_NE(result.failure.find("does not end"), std::string::npos);
}

TEST(FibersTest, TimeJumpsToTheEndOfTheFirstSleepIfAllSleep) {
  Time first = 0;
  Time second = 0;
  const RunResult result = RunAll({[&] {
                                     Sleep(2000000);
                                     second = Now();
                                   },
                                   [&] {
                                     Sleep(1000000);
                                     first = Now();
                                   }});
  EXPECT_TRUE(result.blocked.empty());
  EXPECT_GE(first, 1000000);
  EXPECT_LT(first, 1000100);
  EXPECT_GE(second, 2000000);
  EXPECT_LT(second, 2000100);
}

TEST(FibersTest, TheSteadyClockShowsTheTimeOfFibers) {
  int64_t shown = 0;
  RunAll({[&] {
    Sleep(1000000);
    shown = std::chrono::steady_clock::now().time_since_epoch().count() - Now();
  }});
  EXPECT_EQ(shown, 0);
}

TEST(FibersTest, AFiberIsWokenBeforeItsDeadline) {
  int event = 0;
  Time woken = 0;
  RunAll({[&] {
            BlockOn(&event, "waits", /*deadline=*/1000000);
            woken = Now();
          },
          [&] {
            while (woken == 0) {
              Wake(&event);
              Point("wakes");
            }
          }});
  EXPECT_LT(woken, 1000000);
}

}  // namespace
}  // namespace condacc::explorer
