// Makes operator new fail at each place where a gate calls it, and refuses timers.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/base/timer_queue.h"
#include "cc/core/sync/sync_gate.h"
#include "gtest/gtest.h"
#include "tests/cc/base/failing_new.h"
#include "tests/cc/sync/sync_gate_support.h"

namespace condacc {
namespace {

using For = GateWait::For;
using std::chrono::seconds;

constexpr int kManyAllocations = 16;  // More than any call makes.

// The names are too long to be stored without an allocation.
const char kWorker[] = "/job:worker/replica:3/task:17 of this cluster";
const char kOther[] = "/job:worker/replica:3/task:18 of this cluster";
const char kChief[] = "0123456789abcdef0123456789abcdef";

TEST(SyncGateTimer, ThatWasRefusedIsHadByTheNextWait) {
  const std::shared_ptr<SyncGate> gate = NewGate();
  TimerQueue::Global().refuses = true;
  const int64_t round = Open(gate.get(), 2, 3, kChief, seconds(5));
  Worker frozen(gate, "frozen");
  Worker worker(gate, kWorker);
  frozen.round = worker.round = round;
  ASSERT_TRUE(frozen.Claim());
  ASSERT_TRUE(worker.Claim());
  worker.Finish();
  AdvanceClock(seconds(5));
  EXPECT_TRUE(worker.is_waiting());
  TimerQueue::Global().refuses = false;
  const RecordedWaitPtr report = BeginWait(gate, For::kReport, "", -1, std::chrono::hours(1));
  AdvanceClock({});
  EXPECT_TRUE(worker.wait->has_ended());
  EXPECT_EQ(gate->state().num_takeovers, 1);
}

// A wait of each kind, at a gate in the state in which it ends in each way.
struct Case {
  std::string name;
  For what;
  std::function<void(SyncGate*)> before;
};

std::vector<Case> Cases() {
  const auto nothing = [](SyncGate*) {};
  const auto close = [](SyncGate* gate) { ASSERT_TRUE(gate->Close({kChief}).ok()); };
  const auto dismiss = [](SyncGate* gate) { gate->Dismiss({kChief}); };
  const auto replace = [](SyncGate* gate) {
    int64_t round = 0;
    ASSERT_TRUE(Prepare(gate, {"another chief"}, 0, &round).ok());
  };
  return {{"waits", For::kNextRound, nothing},
          {"training has ended", For::kNextRound, close},
          {"the chief has failed", For::kNextRound, dismiss},
          {"is open", For::kOpening, nothing},
          {"is not open", For::kOpening, close},
          {"is not full", For::kFullRound, nothing},
          {"closed", For::kFullRound, close},
          {"replaced", For::kFullRound, replace},
          {"reports", For::kReport, nothing}};
}

TEST(SyncGateOutOfMemory, AWaitThrowsBeforeItBeginsOrEndsOnce) {
  for (const Case& each : Cases()) {
    for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
      SCOPED_TRACE(each.name + ", allocation " + std::to_string(ordinal));
      const std::shared_ptr<SyncGate> gate = NewGate();
      const int64_t round = Open(gate.get(), 2, 2, kChief, std::chrono::hours(1));
      BeginSession(gate, kWorker, kChief);
      const RecordedWaitPtr other = BeginWait(gate, For::kNextRound, kOther, round);
      each.before(gate.get());
      const bool is_chief = each.what == For::kFullRound;
      int num_ends = 0;
      const auto wait = std::make_shared<GateWait>(each.what, is_chief ? "" : kWorker, kChief,
                                                   round, [&](const GateWait&) { ++num_ends; });
      wait->patience = std::chrono::hours(1);
      const bool threw = ThrowsAt(ordinal, [&] { gate->Wait(wait); });
      // Whatever still waits is ended by the next events.
      int64_t last = 0;
      ASSERT_TRUE(Prepare(gate, {"last"}, 0, &last).ok());
      SyncGate::Options options;
      ASSERT_TRUE(gate->Open({"last"}, last, options, false).ok());
      gate->Cancel(wait);
      EXPECT_EQ(num_ends, threw ? 0 : 1);
      EXPECT_TRUE(other->has_ended());
    }
  }
}

TEST(SyncGateOutOfMemory, ACallThrowsAndChangesNothingOrDoesAllThatItHasToDo) {
  using Call = std::function<void(SyncGate*)>;
  SyncGate::Options options;
  options.num_slots = options.num_workers = 2;
  options.takeover = std::chrono::hours(1);
  const std::vector<std::pair<std::string, Call>> calls = {
      {"Close", [](SyncGate* gate) { (void)gate->Close({kChief}); }},
      {"Dismiss", [](SyncGate* gate) { gate->Dismiss({kChief}); }},
      {"Prepare",
       [](SyncGate* gate) {
         int64_t round = 0;
         (void)Prepare(gate, {"another chief with a long name"}, 0, &round);
       }},
      {"Prepare of a worker",
       [](SyncGate* gate) {
         SyncGate::Prepared prepared;
         (void)gate->Prepare({"another chief with a long name"}, 0, /*volunteers=*/false, &prepared,
                             kWorker);
       }},
      {"Leave", [](SyncGate* gate) { gate->Leave(kOther, RunOf(kOther), true); }},
      {"Lose", [](SyncGate* gate) { gate->Lose("a worker that was never seen before"); }},
      {"TakeOver", [](SyncGate* gate) { gate->TakeOver(); }},
      {"Enter",
       [](SyncGate* gate) {
         std::unique_ptr<WorkerStep> step;
         (void)gate->Enter("a worker that was never seen before", "its run", 1, &step);
         if (step != nullptr) step->ClaimSlot();
       }},
  };
  for (const auto& [name, call] : calls) {
    for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
      SCOPED_TRACE(name + ", allocation " + std::to_string(ordinal));
      const std::shared_ptr<SyncGate> gate = NewGate();
      const int64_t round = Open(gate.get(), 1, 3, kChief, std::chrono::hours(1));
      BeginSession(gate, "third");
      const RecordedWaitPtr first = BeginWait(gate, For::kNextRound, kWorker, round);
      const RecordedWaitPtr second = BeginWait(gate, For::kNextRound, kOther, round);
      const RecordedWaitPtr full = BeginWait(gate, For::kFullRound, kChief);
      const bool did_throw = ThrowsAt(ordinal, [&, call = call] { call(gate.get()); });
      if (did_throw) {
        EXPECT_FALSE(first->has_ended() || second->has_ended() || full->has_ended());
        EXPECT_EQ(gate->state().round, round);
      }
      // The gate can be used afterwards, and ends every wait once.
      int64_t last = 0;
      ASSERT_TRUE(Prepare(gate, {"last"}, 0, &last).ok());
      ASSERT_TRUE(gate->Open({"last"}, last, options, false).ok());
      EXPECT_TRUE(first->has_ended() && second->has_ended() && full->has_ended());
      ASSERT_TRUE(gate->Close({"last"}).ok());
    }
  }
}

TEST(SyncGateTimer, AReportWithoutPatienceDoesNotKeepTheTimerBusy) {
  const std::shared_ptr<SyncGate> gate = NewGate();
  Open(gate.get(), 1, 1, kChief);
  const RecordedWaitPtr report = BeginWait(gate, For::kReport, "", -1);
  const int num_called = AdvanceClock(seconds(1));
  EXPECT_GT(num_called, 1) << "no worker waits, and the gate looks again and again";
  EXPECT_LE(num_called, 2 * (seconds(1) / SyncGate::kShortestDuration));
}

}  // namespace
}  // namespace condacc
