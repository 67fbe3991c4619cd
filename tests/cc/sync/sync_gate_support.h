// Workers and chiefs at a gate, for tests.
#ifndef CONDACC_TESTS_SYNC_SYNC_GATE_SUPPORT_H_
#define CONDACC_TESTS_SYNC_SYNC_GATE_SUPPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/sync/sync_gate.h"
#include "gtest/gtest.h"

namespace condacc {

// The run of a worker or chief that has only one.
inline std::string RunOf(const std::string& name) { return "run of " + name; }

// A wait whose end the test can inspect or wait for.
class RecordedWait {
 public:
  // `who` is the name of a worker, or of the chief.
  RecordedWait(const std::shared_ptr<SyncGate>& gate, GateWait::For what, const std::string& who,
               int64_t after = 0, GateWait::Clock::duration patience = {},
               const std::string& run = "", int64_t session = 0)
      : gate_(gate),
        end_(std::make_shared<std::promise<void>>()),
        ended_(end_->get_future().share()) {
    const bool is_chief = what == GateWait::For::kFullRound;
    wait_ = std::make_shared<GateWait>(what, is_chief ? "" : who,
                                       is_chief      ? who
                                       : run.empty() ? RunOf(who)
                                                     : run,
                                       after, [end = end_](const GateWait&) { end->set_value(); });
    wait_->patience = patience;
    wait_->session = session;
  }

  void Begin() { gate_->Wait(wait_); }
  void Cancel() { gate_->Cancel(wait_); }
  bool has_ended() const {
    return ended_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void Await() const { ended_.wait(); }
  StatusCode code() const { return wait_->end.code; }
  std::string message() const { return wait_->status().message(); }
  int64_t round() const { return wait_->round; }
  const std::string& report() const { return wait_->report; }

 private:
  const std::shared_ptr<SyncGate> gate_;
  const std::shared_ptr<std::promise<void>> end_;
  const std::shared_future<void> ended_;
  GateWait::Ptr wait_;
};

using RecordedWaitPtr = std::unique_ptr<RecordedWait>;

inline RecordedWaitPtr BeginWait(const std::shared_ptr<SyncGate>& gate, GateWait::For what,
                                 const std::string& who, int64_t after = 0,
                                 GateWait::Clock::duration patience = {},
                                 const std::string& run = "", int64_t session = 0) {
  auto wait = std::make_unique<RecordedWait>(gate, what, who, after, patience, run, session);
  wait->Begin();
  return wait;
}

// Begins a session of a worker at an open gate.
inline void BeginSession(const std::shared_ptr<SyncGate>& gate, const std::string& worker,
                         const std::string& run = "") {
  const RecordedWaitPtr opening = BeginWait(gate, GateWait::For::kOpening, worker, 0, {}, run);
  EXPECT_TRUE(opening->has_ended());
  EXPECT_EQ(opening->code(), StatusCode::kOk);
}

// A worker whose moves the test makes one by one.
struct Worker {
  Worker(std::shared_ptr<SyncGate> gate, std::string name, std::string run = "")
      : gate(std::move(gate)), name(std::move(name)), run(std::move(run)) {
    if (this->run.empty()) this->run = RunOf(this->name);
  }

  // Begins a step and returns whether it got a slot. There is no step if another run has replaced
  // this one.
  bool Claim() {
    step.reset();
    if (!gate->Enter(name, run, round, &step).ok()) return false;
    claim = step->ClaimSlot();
    return claim.granted;
  }
  // Reports that all gradients have been pushed, and waits for the next round.
  void Finish(bool any_added = true) {
    was_dropped = step->Done(any_added);
    wait = BeginWait(gate, GateWait::For::kNextRound, name, round, {}, run);
    step.reset();
  }
  // Ends the step before all gradients have been pushed, as a cancellation does.
  void Fail() { step.reset(); }
  bool is_waiting() const { return wait != nullptr && !wait->has_ended(); }
  // Continues in the round with which it was released.
  void GoOn() {
    ASSERT_TRUE(wait->has_ended());
    ASSERT_EQ(wait->code(), StatusCode::kOk);
    round = wait->round();
  }

  std::shared_ptr<SyncGate> gate;
  std::string name;
  std::string run;
  int64_t round = 1;
  std::unique_ptr<WorkerStep> step;
  WorkerStep::Claim claim;
  bool was_dropped = false;
  RecordedWaitPtr wait;
};

inline std::shared_ptr<SyncGate> NewGate() {
  return std::make_shared<SyncGate>("gate 'g'", GateWait::Clock::duration::zero(),
                                    [](const std::string&) {});
}

// Prepares the gate as a chief that is no volunteer, and outputs the round to open it with.
template <class GatePtr>
Status Prepare(const GatePtr& gate, const Chief& chief, int64_t above, int64_t* round) {
  SyncGate::Prepared prepared;
  Status status = gate->Prepare(chief, above, /*volunteers=*/false, &prepared);
  if (status.ok()) *round = prepared.round;
  return status;
}

// Opens the gate as a chief and returns the round.
inline int64_t Open(SyncGate* gate, int num_slots, int num_workers, const std::string& chief = "c",
                    GateWait::Clock::duration takeover = {}, int64_t at_least = 0,
                    std::vector<std::string> listed = {}, GateWait::Clock::duration start = {}) {
  int64_t round = 0;
  EXPECT_TRUE(Prepare(gate, {chief}, at_least, &round).ok());
  SyncGate::Options options;
  options.num_slots = num_slots;
  options.num_workers = num_workers;
  options.takeover = takeover;
  options.listed = std::move(listed);
  options.start = start;
  EXPECT_TRUE(gate->Open({chief}, round, options, false).ok());
  return round;
}

// Gates with workers "w0", "w1", ...
class SyncGateTest : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kTakeover{20};

  // All workers come to the gate.
  void OpenFor(int num_slots, int num_workers, GateWait::Clock::duration takeover = {}) {
    OpenForThatCome(num_slots, num_workers, num_workers, takeover);
  }
  // Only the first `num_come` workers come to the gate.
  void OpenForThatCome(int num_slots, int num_workers, int num_come,
                       GateWait::Clock::duration takeover = {}) {
    const int64_t round = Open(gate_.get(), num_slots, num_workers, "c", takeover);
    for (int i = 0; i < num_workers; ++i) {
      workers_.push_back(std::make_unique<Worker>(gate_, "w" + std::to_string(i)));
      workers_.back()->round = round;
      if (i < num_come) BeginSession(gate_, workers_.back()->name, workers_.back()->run);
    }
  }
  Worker& w(int i) { return *workers_[static_cast<size_t>(i)]; }
  void Step(int i) {
    EXPECT_TRUE(w(i).Claim());
    w(i).Finish();
  }

  std::shared_ptr<SyncGate> gate_ = NewGate();
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_SYNC_SYNC_GATE_SUPPORT_H_
