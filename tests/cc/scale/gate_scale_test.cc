// What the gate costs with many workers.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/sync/sync_gate.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A gate with a chief, and workers that take turns. Each of them also awaits reports.
class Rounds {
 public:
  explicit Rounds(int num_workers) {
    SyncGate::Prepared prepared;
    EXPECT_TRUE(gate_->Prepare(chief_, 0, /*volunteers=*/false, &prepared).ok());
    SyncGate::Options options;
    options.num_slots = std::max(num_workers - 1, 1);  // One of them is a backup.
    options.num_workers = num_workers;
    options.takeover = options.report = std::chrono::hours(1);
    EXPECT_TRUE(gate_->Open(chief_, prepared.round, options, /*volunteers=*/false).ok());
    round_ = prepared.round;
    for (int i = 0; i < num_workers; ++i) {
      workers_.push_back("worker:" + std::to_string(i));
      const auto report =
          std::make_shared<GateWait>(GateWait::For::kReport, "", workers_.back(), -1, kNothing);
      report->patience = std::chrono::hours(1);
      gate_->Wait(report);
    }
  }

  void Run(int count) {
    for (const int64_t end = round_ + count; round_ < end; ++round_) {
      for (const std::string& worker : workers_) Step(worker);
      gate_->Wait(std::make_shared<GateWait>(GateWait::For::kFullRound, "", "chief", 0, kNothing));
      ASSERT_TRUE(gate_->Advance(chief_, round_));
    }
  }

 private:
  static constexpr auto kNothing = [](const GateWait&) {};

  void Step(const std::string& worker) {
    std::unique_ptr<WorkerStep> step;
    ASSERT_TRUE(gate_->Enter(worker, worker, round_, &step).ok());
    step->Done(step->ClaimSlot().granted);
    gate_->Wait(
        std::make_shared<GateWait>(GateWait::For::kNextRound, worker, worker, round_, kNothing));
  }

  const Chief chief_ = {"chief", 1};
  const std::shared_ptr<SyncGate> gate_ =
      std::make_shared<SyncGate>("g", std::chrono::hours(1), [](const std::string&) {});
  std::vector<std::string> workers_;
  int64_t round_ = 0;
};

// Returns the CPU seconds of a worker's step: the fewest of several measurements.
double SecondsOfAStep(int num_workers) {
  Rounds rounds(num_workers);
  rounds.Run(2);
  const int count = 1 + 8000 / num_workers;
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < 5; ++i) {
    const double begun = CpuSeconds();
    rounds.Run(count);
    least = std::min(least, (CpuSeconds() - begun) / count / num_workers);
  }
  return least;
}

TEST(GateScale, AStepCostsTheGateTheSameHoweverManyWorkersThereAre) {
  const double seconds_of_few = SecondsOfAStep(16);
  for (const int num_workers : {64, 256, 1024, 4096}) {
    const double seconds = SecondsOfAStep(num_workers);
    std::printf("%4d workers: %.2f us of CPU for a worker's step\n", num_workers, 1e6 * seconds);
    // Names take longer to find and caches are larger. Anything that looks at all workers in each
    // event makes 4096 cost 256 times as much.
    EXPECT_LT(seconds, 8 * seconds_of_few) << num_workers;
  }
}

}  // namespace
}  // namespace condacc
