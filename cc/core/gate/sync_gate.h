// Takes the workers of synchronous training from round to round.
#ifndef CONDACC_CORE_GATE_SYNC_GATE_H_
#define CONDACC_CORE_GATE_SYNC_GATE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cc/core/base/mutex.h"
#include "cc/core/base/status.h"
#include "cc/core/base/timer_queue.h"
#include "cc/core/gate/gate_wait.h"
#include "cc/core/gate/roster.h"
#include "cc/core/gate/slots.h"

namespace condacc {

class SyncGate;

// A worker's step, from its start to its last push. If the object is destroyed before Done(), the
// step has failed or its client has died: its slot becomes free, and its worker counts as lost.
// Made by SyncGate::Enter().
class GateReservation {
 public:
  // The slot to push gradients with. If none was granted, `round` is lower than the step of every
  // accumulator, so that all gradients are dropped.
  struct Claim {
    bool granted = false;
    int64_t round = 0;
    int64_t slot = 0;
  };

  GateReservation(std::shared_ptr<SyncGate> gate, std::string worker, int64_t local_step);
  ~GateReservation();
  GateReservation(const GateReservation&) = delete;
  GateReservation& operator=(const GateReservation&) = delete;

  // Asks for a slot of the round in which the step began. Later calls return the same claim.
  Claim ClaimSlot();
  // Tells the gate that all gradients have been pushed. Later calls do nothing.
  void Done();

  const std::shared_ptr<SyncGate>& gate() const { return gate_; }
  const std::string& worker() const { return worker_; }
  int64_t local_step() const { return round_; }

 private:
  friend class SyncGate;

  const std::shared_ptr<SyncGate> gate_;
  const std::string worker_;
  const int64_t round_;
  // The fields below are guarded by the lock of the gate.
  uint64_t id_ = 0;
  int slot_ = Slots::kNone;
  bool claimed_ = false;
  bool ended_ = false;
};

// A round has a number of slots, which is how many gradients it averages. A worker enters, claims a
// slot, pushes its gradients with it, tells the gate that it is done, and waits for the next round.
// A chief opens the gate, waits until all slots are complete, takes the gradients, applies them and
// lets the gate advance. So parameters do not change while a slot is open. The numbers of rounds
// only go up.
//
// A waiting worker is released to compute another gradient of the same round if there are more free
// slots than workers that may still bring a gradient. That may become true when a worker leaves or
// is lost.
//
// Thread-safe. Completions are called without the lock. Methods may throw std::bad_alloc.
class SyncGate : public std::enable_shared_from_this<SyncGate> {
 public:
  using Clock = GateWait::Clock;

  struct Options {
    int num_slots = 1;
    int num_workers = 1;
    // If nothing happens at the gate for this long, slots of workers that do not wait are given to
    // workers that do.
    Clock::duration takeover{};  // Never if zero.
    // A round that lasts for longer while a worker waits is logged.
    Clock::duration report{};  // Never if zero.
  };
  // Logs a line of text about a round that lasts too long.
  using Log = std::function<void(const std::string&)>;

  struct State {
    bool open = false;
    int64_t round = 0;
    int num_complete = 0;
    int64_t num_takeovers = 0;
    int64_t num_refused = 0;  // Number of claims that got no slot.
  };

  // `report` is used as Options::report until the gate is opened.
  SyncGate(std::string name, Clock::duration report, Log log);

  // Begins a worker's step in the round `local_step`.
  std::unique_ptr<GateReservation> Enter(const std::string& worker, int64_t local_step);
  // Tells the gate that a worker has ended, so that nobody waits for its gradients. It may enter
  // again.
  void Leave(const std::string& worker);

  // Begins a wait, which may complete at once. After Close(), it completes with OutOfRange, except
  // that kOpening waits for the next opening. That of a chief also completes with OutOfRange after
  // Dismiss(), and with FailedPrecondition if the last Prepare() was not by this chief.
  void Wait(const GateWait::Ptr& wait);
  // Completes a wait with Cancelled, now or as soon as it begins. Does nothing to a wait that has
  // been completed.
  void Cancel(const GateWait::Ptr& wait);

  // Shuts the gate, so that `chief` can open it, and outputs the round to open it with: higher than
  // any round so far, and than `at_least`. Earlier chiefs cannot open the gate or wait at it any
  // more. OutOfRange if there is no higher round.
  Status Prepare(const std::string& chief, int64_t at_least, int64_t* round);
  // Opens the gate. FailedPrecondition unless the last Prepare() was by `chief` for this round.
  Status Open(const std::string& chief, int64_t round, const Options& options);
  // Begins the next round, after the gradients of `round` have been applied. Returns false, and
  // does nothing, if the gate is at another round or not all slots are complete.
  bool Advance(int64_t round);
  // Releases this many waits of workers for the next round at once, with the current round.
  void AddCredits(int64_t count);
  // Ends training: waits complete with OutOfRange until the gate is opened again.
  void Close();
  // Ends the waits of `chief`, and, with Cancelled, those of `worker`, which runs in the same
  // process. Later waits of both end likewise, until Prepare() is called. So a process whose chief
  // has failed notices it. Does nothing if another chief has the gate.
  void Dismiss(const std::string& chief, const std::string& worker);

  // Counts all workers as lost that do not wait, and frees their slots. Does nothing unless a
  // worker waits for the next round and some slot is not complete.
  void TakeOver();

  State state() const;
  std::string Describe() const;

 private:
  friend class GateReservation;
  using WorkerState = Roster::State;

  GateReservation::Claim Claim(GateReservation* reservation) CONDACC_EXCLUDES(mu_);
  void End(GateReservation* reservation, bool done) CONDACC_EXCLUDES(mu_);

  bool is_open() const CONDACC_REQUIRES(mu_) { return open_ && !closed_; }
  bool is_full() const CONDACC_REQUIRES(mu_) { return slots_.num_complete() == slots_.size(); }
  bool has_waiting_workers() const CONDACC_REQUIRES(mu_) {
    return !round_waits_.empty() || !open_waits_.empty();
  }
  void BeginRound(int64_t round) CONDACC_REQUIRES(mu_);
  // Returns an error if the chief may not wait for the round.
  Status CheckChief(const std::string& chief) const CONDACC_REQUIRES(mu_);
  GateWait::List* ListOf(const GateWait& wait) CONDACC_REQUIRES(mu_);
  // Releases a wait: moves it from its list to `released`, which will complete it. Returns the next
  // wait of the list.
  GateWait::List::iterator Release(const GateWait::Ptr& wait, const Status& status,
                                   ReleasedWaits* released) CONDACC_REQUIRES(mu_);
  void ReleaseCancelled(const GateWait::Ptr& wait, ReleasedWaits* released) CONDACC_REQUIRES(mu_);
  // Returns whether a wait is to be released now, because its event has happened or because of an
  // error, which is output.
  bool MustRelease(GateWait* wait, Status* status) CONDACC_REQUIRES(mu_);
  // Releases waits of workers, one for each credit.
  void SpendCredits(ReleasedWaits* released) CONDACC_REQUIRES(mu_);
  // Releases all waits that are to be released now. Called after each event.
  void ReleaseWaits(ReleasedWaits* released) CONDACC_REQUIRES(mu_);
  // Makes OnTimer() run when the next takeover, log line or report is due.
  void ArmTimer() CONDACC_REQUIRES(mu_);
  Clock::time_point NextDeadline() const CONDACC_REQUIRES(mu_);
  void OnTimer();
  void TakeOverLocked(ReleasedWaits* released) CONDACC_REQUIRES(mu_);
  std::string DescribeLocked() const CONDACC_REQUIRES(mu_);

  const std::string name_;
  const Log log_;

  mutable Mutex mu_;
  Options options_ CONDACC_GUARDED_BY(mu_);
  bool open_ CONDACC_GUARDED_BY(mu_) = false;
  bool closed_ CONDACC_GUARDED_BY(mu_) = false;
  int64_t round_ CONDACC_GUARDED_BY(mu_) = 0;
  Slots slots_ CONDACC_GUARDED_BY(mu_){1};
  Roster roster_ CONDACC_GUARDED_BY(mu_);
  std::string chief_ CONDACC_GUARDED_BY(mu_);  // The chief that has called Prepare() last.
  bool chief_dismissed_ CONDACC_GUARDED_BY(mu_) = false;
  std::string dismissed_worker_ CONDACC_GUARDED_BY(mu_);  // Set while the chief is dismissed.
  bool chief_came_ CONDACC_GUARDED_BY(mu_) = false;       // The chief has waited since the opening.
  int64_t credits_ CONDACC_GUARDED_BY(mu_) = 0;
  int64_t credit_round_ CONDACC_GUARDED_BY(mu_) = 0;  // The round of the last AddCredits().
  uint64_t next_id_ CONDACC_GUARDED_BY(mu_) = 1;
  int64_t num_takeovers_ CONDACC_GUARDED_BY(mu_) = 0;
  int64_t num_refused_ CONDACC_GUARDED_BY(mu_) = 0;
  Clock::time_point last_event_ CONDACC_GUARDED_BY(mu_) = Clock::now();
  Clock::time_point round_began_ CONDACC_GUARDED_BY(mu_) = Clock::now();
  bool logged_ CONDACC_GUARDED_BY(mu_) = false;  // The current round has been logged.

  GateWait::List round_waits_ CONDACC_GUARDED_BY(mu_);
  GateWait::List open_waits_ CONDACC_GUARDED_BY(mu_);
  GateWait::List full_waits_ CONDACC_GUARDED_BY(mu_);
  GateWait::List report_waits_ CONDACC_GUARDED_BY(mu_);
  TimerQueue::Ticket timer_ CONDACC_GUARDED_BY(mu_) = TimerQueue::kNoTicket;
  Clock::time_point timer_deadline_ CONDACC_GUARDED_BY(mu_) = Clock::time_point::max();
};

}  // namespace condacc

#endif  // CONDACC_CORE_GATE_SYNC_GATE_H_
