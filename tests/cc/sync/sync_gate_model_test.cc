// Tests random schedules of workers that fail, leave and are taken over, with accumulators beside
// the gate: every round averages one gradient of each slot, and nothing waits forever.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/sync/sync_gate.h"
#include "gtest/gtest.h"
#include "tests/cc/sync/sync_gate_support.h"

namespace condacc {
namespace {

using For = GateWait::For;

// A model of accumulators: they keep contributions of the current round only.
class Accumulators {
 public:
  explicit Accumulators(int count) : pushed_(static_cast<size_t>(count)) {}

  void Push(size_t which, const WorkerStep::Claim& claim) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (claim.round == round_) pushed_[which].insert(claim.slot);
  }
  void Reset(int64_t round) {
    const std::lock_guard<std::mutex> lock(mutex_);
    round_ = round;
    for (auto& slots : pushed_) slots.clear();
  }
  // Returns whether every accumulator had one gradient of each slot of the round.
  bool Take(int64_t round, size_t num_slots) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bool all = round == round_;
    for (auto& slots : pushed_) all = all && slots.size() == num_slots;
    if (all) ++round_;
    for (auto& slots : pushed_) slots.clear();
    return all;
  }
  size_t size() const { return pushed_.size(); }

 private:
  std::mutex mutex_;
  int64_t round_ = 0;
  std::vector<std::set<int64_t>> pushed_;
};

// Makes random moves of all workers, one at a time.
class Schedule {
 public:
  Schedule(unsigned seed, int num_slots, int num_workers)
      : random_(seed), num_slots_(num_slots), num_workers_(num_workers) {
    for (int i = 0; i < num_workers; ++i) {
      workers_.emplace_back(gate_, "w" + std::to_string(i));
      pushed_.push_back(0);
    }
    Reopen();
  }

  void Move() {
    const int kind = Draw(40);
    if (kind == 0) return gate_->TakeOver();
    if (kind == 1) return Reopen();
    const size_t i = static_cast<size_t>(Draw(num_workers_));
    Worker& worker = workers_[i];
    if (worker.is_waiting()) {
      if (kind < 4) worker.wait->Cancel();
      if (kind == 4) gate_->Leave(worker.name, worker.run, /*is_lost=*/false);
      return ServeIfFull();
    }
    if (worker.step == nullptr) {
      if (worker.wait != nullptr && worker.wait->code() == StatusCode::kOk) worker.GoOn();
      worker.Claim();
      pushed_[i] = 0;
    } else if (kind < 5) {
      worker.Fail();
    } else if (pushed_[i] < accumulators_.size()) {
      accumulators_.Push(pushed_[i]++, worker.claim);
    } else {
      worker.Finish();
    }
    ServeIfFull();
  }

  // If all workers that have not failed wait, the round must be complete.
  void ExpectProgress() {
    for (int round = 0; round < 3; ++round) {
      const int64_t before = gate_->state().round;
      for (int i = 0; i < 100 && gate_->state().round == before; ++i) {
        for (size_t w = 0; w < workers_.size(); ++w) FinishStep(w);
        ServeIfFull();
      }
      ASSERT_GT(gate_->state().round, before) << gate_->Describe();
    }
  }

 private:
  std::string chief() const { return "c" + std::to_string(num_opens_); }
  int Draw(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  void FinishStep(size_t i) {
    Worker& worker = workers_[i];
    if (worker.is_waiting()) return;
    if (worker.step == nullptr) {
      if (worker.wait != nullptr && worker.wait->code() == StatusCode::kOk) worker.GoOn();
      worker.Claim();
    }
    for (size_t a = 0; a < accumulators_.size(); ++a) accumulators_.Push(a, worker.claim);
    worker.Finish();
  }

  void Reopen() {
    ++num_opens_;
    int64_t round = 0;
    ASSERT_TRUE(Prepare(gate_, {chief()}, 0, &round).ok());
    ASSERT_GT(round, last_round_);
    last_round_ = round;
    accumulators_.Reset(round);
    SyncGate::Options options;
    options.num_slots = num_slots_;
    options.num_workers = num_workers_;
    ASSERT_TRUE(gate_->Open({chief()}, round, options, false).ok());
    full_ = BeginWait(gate_, For::kFullRound, chief());
  }

  void ServeIfFull() {
    if (!full_->has_ended() || full_->code() != StatusCode::kOk) return;
    const int64_t round = full_->round();
    ASSERT_TRUE(accumulators_.Take(round, static_cast<size_t>(num_slots_)));
    ASSERT_TRUE(gate_->Advance({chief()}, round));
    last_round_ = round + 1;
    full_ = BeginWait(gate_, For::kFullRound, chief());
  }

  std::mt19937 random_;
  const int num_slots_;
  const int num_workers_;
  const std::shared_ptr<SyncGate> gate_ = NewGate();
  std::vector<Worker> workers_;
  std::vector<size_t> pushed_;
  Accumulators accumulators_{2};
  RecordedWaitPtr full_;
  int num_opens_ = 0;
  int64_t last_round_ = 0;
};

TEST(SyncGateModel, RandomSchedulesKeepRoundsWholeAndGoOn) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    const int num_slots = 1 + static_cast<int>(seed) % 5;
    const int num_workers = 1 + static_cast<int>(seed / 5) % 4;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Schedule schedule(seed, num_slots, num_workers);
    for (int i = 0; i < 300; ++i) schedule.Move();
    schedule.ExpectProgress();
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Runs workers on threads, some of whose steps fail, and a chief. Only takeovers end the waits for
// a worker that does not come back.
TEST(SyncGateThreads, RoundsStayWholeWhileWorkersFail) {
  constexpr int kWorkers = 4;
  constexpr int kSlots = 3;
  constexpr int64_t kRounds = 400;
  const std::shared_ptr<SyncGate> gate = NewGate();
  Accumulators accumulators(2);
  const int64_t first = Open(gate.get(), kSlots, kWorkers, "c", std::chrono::milliseconds(20));
  accumulators.Reset(first);
  std::vector<std::thread> threads;
  for (int t = 0; t < kWorkers; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      Worker worker(gate, "w" + std::to_string(t));
      while (true) {
        worker.Claim();
        const bool fails = random() % 8 == 0;
        accumulators.Push(0, worker.claim);
        if (fails) {
          worker.Fail();
          continue;
        }
        accumulators.Push(1, worker.claim);
        worker.Finish();
        if (random() % 8 == 0) worker.wait->Cancel();
        ASSERT_TRUE(worker.wait->Await());
        if (worker.wait->code() == StatusCode::kOutOfRange) return;
        if (worker.wait->code() == StatusCode::kOk) worker.round = worker.wait->round();
      }
    });
  }
  for (int64_t i = 0; i < kRounds; ++i) {
    const RecordedWaitPtr full = BeginWait(gate, For::kFullRound, "c");
    ASSERT_TRUE(full->Await());
    ASSERT_EQ(full->round(), first + i);
    ASSERT_TRUE(accumulators.Take(full->round(), kSlots));
    ASSERT_TRUE(gate->Advance({"c"}, full->round()));
  }
  ASSERT_TRUE(gate->Close({"c"}).ok());
  for (std::thread& thread : threads) thread.join();
}

// If several chiefs open the gate at once, the last one has it.
TEST(SyncGateThreads, OfTwoChiefsAtOnceOneOpensTheGate) {
  for (int i = 0; i < 200; ++i) {
    const std::shared_ptr<SyncGate> gate = NewGate();
    std::atomic<int> num_opened{0};
    std::vector<std::thread> chiefs;
    for (const char* name : {"c", "d"}) {
      chiefs.emplace_back([&, name] {
        int64_t round = 0;
        ASSERT_TRUE(Prepare(gate, {name}, 0, &round).ok());
        SyncGate::Options options;
        const bool opened = gate->Open({name}, round, options, false).ok();
        num_opened += opened ? 1 : 0;
      });
    }
    for (std::thread& chief : chiefs) chief.join();
    ASSERT_GE(num_opened.load(), 1);
    ASSERT_TRUE(gate->state().open);
    const auto c = BeginWait(gate, For::kFullRound, "c");
    const auto d = BeginWait(gate, For::kFullRound, "d");
    ASSERT_NE(c->has_ended(), d->has_ended());  // The one without the gate gets an error.
    // Only the one that has the gate can end the training.
    ASSERT_NE(gate->Close({"c"}).ok(), gate->Close({"d"}).ok());
  }
}

}  // namespace
}  // namespace condacc
