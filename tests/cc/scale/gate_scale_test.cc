// Tests that a step of a worker makes the gate look at few things, however many workers there are.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/sync/sync_gate.h"
#include "gtest/gtest.h"

namespace {

// How often this thread has looked at a worker or at the time of a wait.
thread_local int64_t num_looks = 0;

}  // namespace

// The definitions below replace those of the standard library. The gate reads the clock for each
// report that it looks at, and goes from one worker to the next in a map.
namespace std {

chrono::steady_clock::time_point chrono::steady_clock::now() noexcept {
  ++num_looks;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return time_point(chrono::seconds(now.tv_sec) + chrono::nanoseconds(now.tv_nsec));
}

_Rb_tree_node_base* _Rb_tree_increment(_Rb_tree_node_base* node) noexcept {
  ++num_looks;
  if (node->_M_right != nullptr) return _Rb_tree_node_base::_S_minimum(node->_M_right);
  _Rb_tree_node_base* parent = node->_M_parent;
  for (; node == parent->_M_right; parent = parent->_M_parent) node = parent;
  return node->_M_right == parent ? node : parent;
}

const _Rb_tree_node_base* _Rb_tree_increment(const _Rb_tree_node_base* node) noexcept {
  return _Rb_tree_increment(const_cast<_Rb_tree_node_base*>(node));
}

}  // namespace std

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

  // Returns how much it looks at in the steps of a round's workers.
  int64_t RunSteps() {
    const int64_t before = num_looks;
    for (const std::string& worker : workers_) Step(worker);
    return num_looks - before;
  }
  // The same for the end of the round.
  int64_t EndRound() {
    const int64_t before = num_looks;
    gate_->Wait(std::make_shared<GateWait>(GateWait::For::kFullRound, "", "chief", 0, kNothing));
    EXPECT_TRUE(gate_->Advance(chief_, round_++));
    return num_looks - before;
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
      std::make_shared<SyncGate>("gate 'g'", std::chrono::hours(1), [](const std::string&) {});
  std::vector<std::string> workers_;
  int64_t round_ = 0;
};

TEST(GateScale, AStepMakesTheGateLookAtAsMuchHoweverManyWorkersThereAre) {
  for (const int num_workers : {16, 64, 256, 1024, 4096}) {
    Rounds rounds(num_workers);
    rounds.RunSteps();
    rounds.EndRound();
    const double begun = CpuSeconds();
    const int64_t num_looks_of_steps = rounds.RunSteps();
    const double seconds = CpuSeconds() - begun;
    std::printf("%4d workers: %.1f looks and %.2f us of CPU for a worker's step\n", num_workers,
                static_cast<double>(num_looks_of_steps) / num_workers, 1e6 * seconds / num_workers);
    EXPECT_LE(num_looks_of_steps, 10 * num_workers);
    // Checks that the replaced functions are still called: the end of a round concerns all workers.
    EXPECT_GE(rounds.EndRound(), num_workers);
  }
}

}  // namespace
}  // namespace condacc
