// Workers and chiefs at a gate, for tests.
#ifndef CONDACC_TESTS_GATE_SYNC_GATE_SUPPORT_H_
#define CONDACC_TESTS_GATE_SYNC_GATE_SUPPORT_H_

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/gate/sync_gate.h"
#include "gtest/gtest.h"

namespace condacc {

// A wait with an end that the test can look at, or wait for.
class RecordedWait {
 public:
  RecordedWait(const std::shared_ptr<SyncGate>& gate, GateWait::For what, const std::string& who,
               int64_t after = 0, GateWait::Clock::duration patience = {})
      : gate_(gate),
        end_(std::make_shared<std::promise<void>>()),
        ended_(end_->get_future().share()) {
    wait_ = std::make_shared<GateWait>(what, who, after,
                                       [end = end_](const GateWait&) { end->set_value(); });
    wait_->patience = patience;
  }

  void Begin() { gate_->Wait(wait_); }
  void Cancel() { gate_->Cancel(wait_); }
  bool has_ended() const {
    return ended_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  bool Await() const {
    return ended_.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  }
  StatusCode code() const { return wait_->status.code(); }
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
                                 GateWait::Clock::duration patience = {}) {
  auto wait = std::make_unique<RecordedWait>(gate, what, who, after, patience);
  wait->Begin();
  return wait;
}

// A worker whose moves the test makes one by one.
struct Worker {
  Worker(std::shared_ptr<SyncGate> gate, std::string name)
      : gate(std::move(gate)), name(std::move(name)) {}

  bool Claim() {
    reservation = gate->Enter(name, round);
    claim = reservation->ClaimSlot();
    return claim.granted;
  }
  // Reports that all gradients have been pushed, and waits for the next round.
  void Finish() {
    reservation->Done();
    wait = BeginWait(gate, GateWait::For::kNextRound, name, round);
    reservation.reset();
  }
  // Ends the step before all gradients have been pushed, as a cancellation does.
  void Fail() { reservation.reset(); }
  bool is_waiting() const { return wait != nullptr && !wait->has_ended(); }
  // Continues in the round with which it was released.
  void GoOn() {
    ASSERT_TRUE(wait->has_ended());
    ASSERT_EQ(wait->code(), StatusCode::kOk);
    round = wait->round();
  }

  std::shared_ptr<SyncGate> gate;
  std::string name;
  int64_t round = 1;
  std::unique_ptr<GateReservation> reservation;
  GateReservation::Claim claim;
  RecordedWaitPtr wait;
};

inline std::shared_ptr<SyncGate> NewGate() {
  return std::make_shared<SyncGate>("g", GateWait::Clock::duration::zero(),
                                    [](const std::string&) {});
}

// Opens the gate as a chief and returns the round.
inline int64_t Open(SyncGate* gate, int num_slots, int num_workers, const std::string& chief = "c",
                    GateWait::Clock::duration takeover = {}, int64_t at_least = 0) {
  int64_t round = 0;
  EXPECT_TRUE(gate->Prepare(chief, at_least, &round).ok());
  SyncGate::Options options;
  options.num_slots = num_slots;
  options.num_workers = num_workers;
  options.takeover = takeover;
  EXPECT_TRUE(gate->Open(chief, round, options).ok());
  return round;
}

}  // namespace condacc

#endif  // CONDACC_TESTS_GATE_SYNC_GATE_SUPPORT_H_
