// Tests workers and chiefs in threads, with accumulators beside the gate, for the thread sanitizer:
// every round averages one gradient of each slot, and nothing waits forever. The explorer of
// schedules plays many more of them.
#include <atomic>
#include <chrono>
#include <cstdint>
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

// Models accumulators: they keep contributions of the current round only.
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
        worker.wait->Await();
        if (worker.wait->code() == StatusCode::kOutOfRange) return;
        if (worker.wait->code() == StatusCode::kOk) worker.round = worker.wait->round();
      }
    });
  }
  std::atomic<bool> has_ended{false};
  std::thread clock([&] {
    while (!has_ended) {
      AdvanceClock(std::chrono::milliseconds(1));
      std::this_thread::yield();
    }
  });
  for (int64_t i = 0; i < kRounds; ++i) {
    const RecordedWaitPtr full = BeginWait(gate, For::kFullRound, "c");
    full->Await();
    ASSERT_EQ(full->round(), first + i);
    ASSERT_TRUE(accumulators.Take(full->round(), kSlots));
    ASSERT_TRUE(gate->Advance({"c"}, full->round()));
  }
  ASSERT_TRUE(gate->Close({"c"}).ok());
  for (std::thread& thread : threads) thread.join();
  has_ended = true;
  clock.join();
}

}  // namespace
}  // namespace condacc
