// The calls of SyncGate that the program "gate" makes, all in one place.
#ifndef CONDACC_TESTS_EXPLORER_GATE_CALLS_H_
#define CONDACC_TESTS_EXPLORER_GATE_CALLS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/sync/sync_gate.h"
#include "tests/cc/explorer/fibers/coverage.h"
#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc::explorer {

// A process and graph that acts for a worker or a chief.
struct Actor {
  std::string name;
  std::string run;
  int64_t session = 0;

  Chief chief() const { return {run, session}; }
};

// So many percent of the allocations of the gate are refused.
inline int gate_refused_percent = 0;

// Makes a call again until it gets the memory that it needs. A call that throws changes nothing.
template <class Call>
auto Retry(const char* name, const Call& call) {
  Reached(name);
  Tell(name);
  while (true) {
    try {
      const NewRefusal refusal(gate_refused_percent);
      return call();
    } catch (const std::bad_alloc&) {
      Reached("std::bad_alloc of a call");
      Point("tries again");
    }
  }
}

// Returns null if the step is refused because another run has replaced the worker's.
inline std::unique_ptr<WorkerStep> Enter(SyncGate& gate, const Actor& worker, int64_t round) {
  return Retry("SyncGate::Enter", [&] {
    std::unique_ptr<WorkerStep> step;
    return gate.Enter(worker.name, worker.run, round, &step).ok() ? std::move(step) : nullptr;
  });
}
inline void Leave(SyncGate& gate, const Actor& worker, bool is_lost = false) {
  Retry("SyncGate::Leave", [&] { gate.Leave(worker.name, worker.run, is_lost); });
}
inline void Lose(SyncGate& gate, const std::string& worker) {
  Retry("SyncGate::Lose", [&] { gate.Lose(worker); });
}
inline WorkerStep::Claim Claim(WorkerStep& step) {
  return Retry("WorkerStep::ClaimSlot", [&] { return step.ClaimSlot(); });
}
inline void EndStep(WorkerStep& step, bool any_added) {
  Retry("WorkerStep::Done", [&] { step.Done(any_added); });
}

inline GateWait::Ptr NewWait(GateWait::For what, const Actor& who, int64_t after,
                             GateWait::Done done) {
  auto wait = std::make_shared<GateWait>(what, who.name, who.run, after, std::move(done));
  wait->session = who.session;
  return wait;
}
inline void BeginWait(SyncGate& gate, const GateWait::Ptr& wait) {
  Retry("SyncGate::Wait", [&] { gate.Wait(wait); });
}
inline void CancelWait(SyncGate& gate, const GateWait::Ptr& wait) {
  Retry("SyncGate::Cancel", [&] { gate.Cancel(wait); });
}
inline StatusCode CodeOf(const GateWait& wait) {
  return Retry("GateWait::status", [&] { return wait.status().code(); });
}

// The operations of a chief. They return whether they were accepted.
inline bool Prepare(SyncGate& gate, const Actor& chief, int64_t at_least, bool volunteers,
                    SyncGate::Prepared* prepared, const std::string& worker) {
  return Retry("SyncGate::Prepare", [&] {
    return gate.Prepare(chief.chief(), at_least, volunteers, prepared, worker).ok();
  });
}
inline void ResetForRound(Accumulator& accumulator, int64_t round) {
  accumulator.Reset(round, /*only_forward=*/true);
}
inline bool Open(SyncGate& gate, const Actor& chief, int64_t round,
                 const SyncGate::Options& options, bool volunteers) {
  return Retry("SyncGate::Open",
               [&] { return gate.Open(chief.chief(), round, options, volunteers).ok(); });
}
inline bool AddCredits(SyncGate& gate, const Actor& chief, int64_t count) {
  return Retry("SyncGate::AddCredits", [&] { return gate.AddCredits(chief.chief(), count).ok(); });
}
inline bool Advance(SyncGate& gate, const Actor& chief, int64_t round) {
  return Retry("SyncGate::Advance", [&] { return gate.Advance(chief.chief(), round); });
}
inline bool Close(SyncGate& gate, const Actor& chief) {
  return Retry("SyncGate::Close", [&] { return gate.Close(chief.chief()).ok(); });
}
inline void Dismiss(SyncGate& gate, const Actor& chief) {
  Retry("SyncGate::Dismiss", [&] { gate.Dismiss(chief.chief()); });
}

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_GATE_CALLS_H_
