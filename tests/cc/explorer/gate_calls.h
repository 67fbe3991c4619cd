// The calls of SyncGate that the program "gate" makes, all in one place.
#ifndef CONDACC_TESTS_EXPLORER_GATE_CALLS_H_
#define CONDACC_TESTS_EXPLORER_GATE_CALLS_H_

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/dense/dense_accumulator.h"
#include "cc/core/gate/sync_gate.h"

namespace condacc::explorer {

// A process and graph that acts for a worker or a chief.
struct Actor {
  std::string name;
  std::string run;
};

inline const bool kReplacedChiefsAct = std::getenv("CONDACC_F") != nullptr;
constexpr bool kWorkersHaveRuns = false;

// Returns null if the step is refused, because another run has replaced that of the worker.
inline std::unique_ptr<GateReservation> Enter(SyncGate& gate, const Actor& worker, int64_t round) {
  return gate.Enter(worker.name, round);
}
inline void Leave(SyncGate& gate, const Actor& worker) { gate.Leave(worker.name); }
inline void EndStep(GateReservation& reservation, bool /*any_added*/) { reservation.Done(); }

inline GateWait::Ptr NewWait(GateWait::For what, const Actor& who, int64_t after,
                             GateWait::Done done) {
  return std::make_shared<GateWait>(what, who.name, after, std::move(done));
}
inline StatusCode CodeOf(const GateWait& wait) { return wait.status.code(); }

// The operations of a chief. They return whether they were accepted.
inline bool Prepare(SyncGate& gate, const Actor& chief, int64_t at_least, int64_t* round) {
  return gate.Prepare(chief.name, at_least, round).ok();
}
inline void ResetForRound(DenseAccumulator& accumulator, int64_t round) {
  accumulator.Reset(round);
}
inline bool Open(SyncGate& gate, const Actor& chief, int64_t round,
                 const SyncGate::Options& options) {
  return gate.Open(chief.name, round, options).ok();
}
inline bool AddCredits(SyncGate& gate, const Actor&, int64_t count) {
  gate.AddCredits(count);
  return true;
}
inline bool Advance(SyncGate& gate, const Actor&, int64_t round) { return gate.Advance(round); }
inline bool Close(SyncGate& gate, const Actor&) {
  gate.Close();
  return true;
}
inline void Dismiss(SyncGate& gate, const Actor& chief) { gate.Dismiss(chief.name, "worker 0"); }
inline void SetWaitsForLost(SyncGate::Options*, bool) {}

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_GATE_CALLS_H_
