// Waits at a gate.
#ifndef CONDACC_CORE_SYNC_GATE_WAIT_H_
#define CONDACC_CORE_SYNC_GATE_WAIT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/base/status.h"
#include "cc/core/base/wait_list.h"

namespace condacc {

// One wait at a gate. `done` is called exactly once, never under a lock, and must not throw. By
// then `end` is set. Unless it is an error, so are `round` and, for an observer, `report`.
struct GateWait : Waiter<GateWait> {
  using Clock = std::chrono::steady_clock;
  using Ptr = std::shared_ptr<GateWait>;
  using List = WaitList<GateWait>;
  using Done = std::function<void(const GateWait&)>;

  enum class For {
    // A worker waits until the gate is at a round other than `after`, or lets the worker compute
    // another gradient of the same round.
    kNextRound,
    // A worker waits until the gate is open.
    kOpening,
    // A chief waits until all slots are complete. A chief that has never prepared the gate waits
    // until it does.
    kFullRound,
    // An observer waits until a round other than `after` has lasted for `patience` while a worker
    // waits.
    kReport,
  };

  // How a wait ended. An error has a fixed text, so that ending a wait needs no memory.
  struct End {
    StatusCode code = StatusCode::kOk;
    const char* why = "";
  };

  GateWait(For what, std::string who, std::string run, int64_t after, Done done = nullptr)
      : what(what), who(std::move(who)), run(std::move(run)), after(after), done(std::move(done)) {}

  bool is_of_worker() const { return what == For::kNextRound || what == For::kOpening; }
  // Returns the status with which the wait has ended. May throw std::bad_alloc.
  Status status() const { return Status(end.code, end.why + report); }

  const For what;
  const std::string who;  // Name of the worker. Empty for chiefs and observers.
  const std::string run;  // Identifies the process and graph of the worker or the chief.
  int64_t session = 0;    // The session of a chief or an observer.
  const int64_t after;
  // How long an observer, or a worker that is late, waits; zero means without a limit.
  Clock::duration patience{};
  Done done;

  End end;
  int64_t round = 0;
  std::string report;  // The text for an observer, or the end of an error's message.

  // The fields below are guarded by the lock of the gate.
  bool is_cancelled = false;
  // True if the worker has come for the first time after its training has ended.
  bool is_late = false;
  Clock::time_point began;  // When the wait began.

  void Complete() {
    const Done function = std::exchange(done, nullptr);
    function(*this);
  }
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_GATE_WAIT_H_
