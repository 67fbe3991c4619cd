// The calls of SyncGate that the program "gate" makes, all in one place.
#ifndef CONDACC_TESTS_EXPLORER_GATE_CALLS_H_
#define CONDACC_TESTS_EXPLORER_GATE_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/sync/sync_gate.h"

namespace condacc::explorer {

// A process and graph that acts for a worker or a chief.
struct Actor {
  std::string name;
  std::string run;
  int64_t session = 0;

  Chief chief() const { return {run, session}; }
};

// Returns null if the step is refused because another run has replaced the worker's.
inline std::unique_ptr<WorkerStep> Enter(SyncGate& gate, const Actor& worker, int64_t round) {
  std::unique_ptr<WorkerStep> step;
  return gate.Enter(worker.name, worker.run, round, &step).ok() ? std::move(step) : nullptr;
}
inline void Leave(SyncGate& gate, const Actor& worker) {
  gate.Leave(worker.name, worker.run, /*is_lost=*/false);
}
inline void EndStep(WorkerStep& step, bool any_added) { step.Done(any_added); }

inline GateWait::Ptr NewWait(GateWait::For what, const Actor& who, int64_t after,
                             GateWait::Done done) {
  auto wait = std::make_shared<GateWait>(what, who.name, who.run, after, std::move(done));
  wait->session = who.session;
  return wait;
}
inline StatusCode CodeOf(const GateWait& wait) { return wait.end.code; }

// The operations of a chief. They return whether they were accepted.
inline bool Prepare(SyncGate& gate, const Actor& chief, int64_t at_least, bool volunteers,
                    SyncGate::Prepared* prepared) {
  return gate.Prepare(chief.chief(), at_least, volunteers, prepared).ok();
}
inline void ResetForRound(Accumulator& accumulator, int64_t round) {
  accumulator.Reset(round, /*only_forward=*/true);
}
inline bool Open(SyncGate& gate, const Actor& chief, int64_t round,
                 const SyncGate::Options& options, bool volunteers) {
  return gate.Open(chief.chief(), round, options, volunteers).ok();
}
inline bool AddCredits(SyncGate& gate, const Actor& chief, int64_t count) {
  return gate.AddCredits(chief.chief(), count).ok();
}
inline bool Advance(SyncGate& gate, const Actor& chief, int64_t round) {
  return gate.Advance(chief.chief(), round);
}
inline bool Close(SyncGate& gate, const Actor& chief) { return gate.Close(chief.chief()).ok(); }
inline void Dismiss(SyncGate& gate, const Actor& chief) { gate.Dismiss(chief.chief()); }

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_GATE_CALLS_H_
