// Waits at a gate.
#ifndef CONDACC_CORE_SYNC_GATE_WAIT_H_
#define CONDACC_CORE_SYNC_GATE_WAIT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/base/status.h"

namespace condacc {

// One wait at a gate. `done` is called exactly once, never under a lock, and must not throw. By
// then `end` is set and, if that is no error, so are `round` and, for an observer, `report`.
struct GateWait {
  using Clock = std::chrono::steady_clock;
  using Ptr = std::shared_ptr<GateWait>;
  using List = std::list<Ptr>;
  using Done = std::function<void(const GateWait&)>;

  enum class For {
    // A worker waits until the gate is at another round than `after`, or releases it in the same
    // round.
    kNextRound,
    // A worker waits until the gate is open.
    kOpening,
    // A chief waits until all slots are complete.
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

  GateWait(For what, std::string who, std::string run, int64_t after, Done done)
      : what(what), who(std::move(who)), run(std::move(run)), after(after), done(std::move(done)) {}

  bool is_of_worker() const { return what == For::kNextRound || what == For::kOpening; }

  const For what;
  const std::string who;  // Name of the worker. Empty for chiefs and observers.
  const std::string run;  // Identifies the process and graph of the worker or the chief.
  const int64_t after;
  Clock::duration patience{};
  Done done;

  End end;
  int64_t round = 0;
  std::string report;  // The text for an observer, or the end of an error's message.

  // The fields below are guarded by the lock of the gate.
  bool cancelled = false;
  bool waiting = false;
  List::iterator position;
};

// The waits that a call has released. The destructor completes them, so it must run after the lock
// was released: an object is declared before the lock is taken.
class ReleasedWaits {
 public:
  ReleasedWaits() = default;
  ReleasedWaits(const ReleasedWaits&) = delete;
  ReleasedWaits& operator=(const ReleasedWaits&) = delete;
  ~ReleasedWaits() {
    for (const GateWait::Ptr& wait : waits_) {
      const GateWait::Done done = std::move(wait->done);
      wait->done = nullptr;
      done(*wait);
    }
  }

  // Moves a wait here. Needs no memory.
  void Add(GateWait::List* from, GateWait::List::iterator position) noexcept {
    waits_.splice(waits_.end(), *from, position);
  }

 private:
  GateWait::List waits_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_GATE_WAIT_H_
