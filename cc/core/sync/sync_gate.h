// Moves the workers of synchronous training from round to round.
#ifndef CONDACC_CORE_SYNC_SYNC_GATE_H_
#define CONDACC_CORE_SYNC_SYNC_GATE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cc/core/base/mutex.h"
#include "cc/core/base/status.h"
#include "cc/core/base/timer_queue.h"
#include "cc/core/base/wait_list.h"
#include "cc/core/sync/chief_state.h"
#include "cc/core/sync/gate_wait.h"
#include "cc/core/sync/roster.h"
#include "cc/core/sync/slots.h"

namespace condacc {

class SyncGate;

// A worker's step, from its start to its last push. If the object is destroyed before Done(), the
// step has failed or its client has died: its slot becomes free, and its worker counts as lost.
// SyncGate::Enter() creates it. Its methods do not throw.
class WorkerStep {
 public:
  // The slot to push gradients with. If none was granted, `round` is lower than the step of every
  // accumulator, so that all gradients are dropped.
  struct Claim {
    bool granted = false;
    int64_t round = 0;
    int64_t slot = 0;
  };

  WorkerStep(std::shared_ptr<SyncGate> gate, std::string worker, std::string run,
             int64_t local_step);
  ~WorkerStep();
  WorkerStep(const WorkerStep&) = delete;
  WorkerStep& operator=(const WorkerStep&) = delete;

  // Asks for a slot of the round in which the step began. Later calls return the same claim.
  Claim ClaimSlot();
  // Tells the gate that all gradients have been pushed, and whether any of them was added. Returns
  // whether the gradients were dropped, because there was no slot or another worker took it over.
  // Later calls only return the same result.
  bool Done(bool any_added);

  const std::shared_ptr<SyncGate>& gate() const { return gate_; }
  const std::string& worker() const { return worker_; }
  const std::string& run() const { return run_; }
  int64_t local_step() const { return round_; }

 private:
  friend class SyncGate;
  using List = std::list<WorkerStep*>;

  const std::shared_ptr<SyncGate> gate_;
  const std::string worker_;
  const std::string run_;
  const int64_t round_;
  // The fields below are guarded by the lock of the gate.
  uint64_t id_ = 0;
  int slot_ = Slots::kNone;
  bool claimed_ = false;
  bool at_gate_ = false;   // The step has begun and has not ended.
  bool counted_ = false;   // The step is counted in Roster::Worker::num_steps.
  bool replaced_ = false;  // A newer run or session has replaced the step's.
  bool dropped_ = false;
  List::iterator position_;  // In the gate's list of steps.
};

// A round has one slot for each gradient that it averages. A worker enters, claims a slot, pushes
// its gradients with it, tells the gate that it is done, and waits for the next round. A chief
// opens the gate, waits until all slots are complete, takes the gradients, applies them and
// advances the gate. So parameters do not change while a slot is incomplete. Round numbers only
// increase.
//
// A waiting worker is released to compute another gradient of the same round if there are more free
// slots than workers that may still bring a gradient. This can happen when a worker leaves or is
// lost, or if fewer workers have come than there are slots.
//
// Workers have names, and each process and graph that acts under a name is a separate run. A new
// run replaces earlier runs of the same name: their slots become free, and they get
// FailedPrecondition. So a restarted worker need not wait until the loss of its old host is
// noticed. For chiefs, Prepare() replaces the earlier one, whose operations then have no effect.
// The name of a chief is the run of the worker in its process. A chief that has never prepared the
// gate, because its queue runner was started in a process that is no chief, only waits.
//
// Thread-safe. Completions are called without the lock. Methods may throw std::bad_alloc, and then
// nothing has changed. Once an event has been recorded, nothing throws until all waits that it ends
// have been released.
//
// Example, with one accumulator `sums`, a gate, its chief and one of its workers:
//
//   // The chief "c", once:
//   gate->Prepare({"c", session}, sums.global_step(), /*volunteers=*/false, &prepared);
//   sums.Reset(prepared.round, /*only_forward=*/true);
//   gate->Open({"c", session}, prepared.round, {/*num_slots=*/2, /*num_workers=*/2},
//              /*volunteers=*/false);
//   // A worker, in each step:
//   gate->Enter("w0", run, round, &step);
//   const WorkerStep::Claim claim = step->ClaimSlot();
//   gradient.contributor = claim.slot;
//   const ApplyResult result = sums.Apply(claim.round, std::move(gradient), workspace);
//   step->Done(result.is_added());
//   gate->Wait(next_round);  // A GateWait::For::kNextRound, which outputs the next round.
//   // The chief, in each round, after a GateWait::For::kFullRound:
//   sums.TryServe(take, workspace);  // The take updates the parameters.
//   gate->Advance({"c", session}, round);
class SyncGate : public std::enable_shared_from_this<SyncGate> {
 public:
  using Clock = GateWait::Clock;

  // The shortest time that the gate can be asked to wait. A shorter one would keep the timer thread
  // busy, or be rounded to 0, which means never.
  static constexpr Clock::duration kShortestDuration = std::chrono::milliseconds(1);

  struct Options {
    int num_slots = 1;
    int num_workers = 1;
    // If a round makes no progress for this long, slots of workers that do not wait are given to
    // workers that do. Progress is a slot that is claimed or completed.
    Clock::duration takeover{};  // Never if zero.
    // A round that lasts longer than this while a worker waits is logged.
    Clock::duration report{};  // Never if zero.
    // If false, the chief's wait ends with an error once all workers have been lost or have left
    // for as long as `report`.
    bool wait_for_lost = false;
    // The names of the workers of the cluster, if they are known. As many of them as a round needs
    // are waited for until they come, but not longer than `start` after the opening.
    std::vector<std::string> listed;
    Clock::duration start{};
  };
  // Logs a line of text about a round that lasts too long.
  using Log = std::function<void(const std::string&)>;

  struct State {
    bool open = false;
    int64_t round = 0;
    int num_complete = 0;
    int64_t num_takeovers = 0;
    int64_t num_dropped = 0;  // Number of steps whose gradients were dropped.
  };

  struct Prepared {
    int64_t round = 0;      // The round to open the gate with.
    bool is_chief = false;  // The gate is the chief's.
    bool begins = false;    // The round is a new one.
  };

  // `where` names the gate, for example "gate 'g'". `report` is used as Options::report until the
  // gate is opened.
  SyncGate(std::string where, Clock::duration report, Log log);

  // Begins a worker's step in the round `local_step`. Returns FailedPrecondition if another run has
  // replaced this one, or if there are backup workers and another step of the run has neither ended
  // nor been taken over: one of two concurrent steps may begin with the parameters of one round and
  // the local step of the next.
  Status Enter(const std::string& worker, const std::string& run, int64_t local_step,
               std::unique_ptr<WorkerStep>* step);
  // Tells the gate that a worker has ended, so that its gradients are no longer expected. `is_lost`
  // means that it has failed. The worker may enter again. Does nothing if another run has replaced
  // this one.
  void Leave(const std::string& worker, const std::string& run, bool is_lost);
  // Tells the gate that the process of a worker is gone: its slot becomes free.
  void Lose(const std::string& worker);

  // Begins a wait, which may complete at once. A wait for an opening is also how a new session of a
  // worker comes: it ends the steps and waits of the worker's earlier sessions. The errors of a
  // worker's wait are
  // - FailedPrecondition if another run has replaced the worker's;
  // - for kNextRound, OutOfRange after Close(), and Cancelled if the chief of the same run has been
  //   dismissed. kOpening waits for the next opening instead. But if the worker comes for the
  //   first time after Close(), and was one of Options::num_workers, this wait ends after its
  //   patience: the first step of the worker will be told of the end.
  // The errors of a chief's wait are
  // - OutOfRange after Close() of a gate that is the chief's, or after Dismiss();
  // - FailedPrecondition if another chief has replaced this one, or if no worker is left.
  // Other chiefs that the gate does not belong to wait until they have prepared it. But as long as
  // the chief that has opened the gate has not waited, the first of them takes its rounds as a
  // deputy. An observer's wait ends with OutOfRange after Dismiss().
  void Wait(const GateWait::Ptr& wait);
  // Completes a wait with Cancelled, now or as soon as it begins. Does nothing to a wait that has
  // been completed.
  void Cancel(const GateWait::Ptr& wait);

  // Shuts the gate, so that `chief` can open it, and outputs the round to open it with, which is
  // higher than any round so far and than `above`. From then on, the gate belongs to this chief:
  // operations of earlier chiefs fail or do nothing. If the chief has prepared the gate in this
  // session already, the round goes on, and nothing changes. A chief that `volunteers` prepares the
  // gate only if ChiefState::MayVolunteer(); otherwise it gets the current round. It
  // is not replaced by another chief, but waits beside it. Returns OutOfRange if there is no
  // higher round. If the process of the chief is a worker as well, `worker` is its name: it comes
  // or, if a new round begins, its steps and waits end.
  Status Prepare(const Chief& chief, int64_t above, bool volunteers, Prepared* prepared,
                 const std::string& worker = "");
  // Opens the gate, unless it is open since the same Prepare(). Returns FailedPrecondition unless
  // the gate is the chief's and `round` what Prepare() has output. If the chief `volunteers`, does
  // nothing instead. If the chief volunteered and AddCredits() has not been called in this
  // training, the first round waits for as many workers as it needs, even if they have never come,
  // until AddCredits() or a takeover.
  Status Open(const Chief& chief, int64_t round, const Options& options, bool volunteers);
  // Begins the next round, after the gradients of `round` have been applied. Does nothing and
  // returns false if the gate does not belong to the chief, which has no deputy in this round, or
  // is at another round, or if not all slots are complete.
  bool Advance(const Chief& chief, int64_t round);
  // Releases `count` waits of workers for the next round, now or as soon as they begin, with the
  // current round as their result. As the chief has counted what its workers need, so many workers
  // are then waited for, even if they have never come, that each has to bring one gradient beside
  // those of the credits. Credits from before the opening have no effect. Returns
  // FailedPrecondition if the gate belongs to another chief. A negative `count` adds none, waits
  // only for listed workers, and does nothing if the gate belongs to another chief.
  Status AddCredits(const Chief& chief, int64_t count);
  // Ends training: waits complete with OutOfRange until the gate is prepared again. Does nothing
  // and returns FailedPrecondition unless the gate belongs to the chief.
  Status Close(const Chief& chief);
  // Ends the waits of `chief` and of its observers. If the gate belongs to the chief, also ends,
  // with Cancelled, the waits for the next round of the worker of the same run, so that a process
  // whose chief has failed notices it. Later waits of all of them end in the same way until the
  // chief calls Prepare(). Other workers keep waiting.
  void Dismiss(const Chief& chief);

  State state() const;
  std::string Describe() const;
  const std::string& where() const { return where_; }

 private:
  friend class WorkerStep;
  using WorkerState = Roster::State;

  static const GateWait::End kReplacedWorker;

  WorkerStep::Claim Claim(WorkerStep* step) noexcept CONDACC_EXCLUDES(mu_);
  // Ends a step. Returns whether its gradients were dropped.
  bool End(WorkerStep* step, bool is_done, bool any_added) noexcept CONDACC_EXCLUDES(mu_);
  // Returns the error for an operation of a chief that the gate does not belong to.
  static Status NotThisChief(const char* operation);

  bool is_open() const CONDACC_REQUIRES(mu_) { return chief_.is_open(); }
  bool is_full() const CONDACC_REQUIRES(mu_) { return slots_.num_complete() == slots_.size(); }
  bool has_waiting_workers() const CONDACC_REQUIRES(mu_) {
    return !round_waits_.empty() || !open_waits_.empty();
  }
  // Returns how many workers are waited for although they have never come.
  int num_awaited() const CONDACC_REQUIRES(mu_) {
    return roster_.NumUnseen(std::max(num_needed_, num_expected_));
  }
  // Returns how many workers are here or are waited for.
  int num_coming() const CONDACC_REQUIRES(mu_) {
    return roster_.NumPresent(options_.num_workers) + num_awaited();
  }
  // Returns whether no worker is left that could bring a gradient of the round.
  bool lacks_workers() const CONDACC_REQUIRES(mu_) {
    return is_open() && !is_full() && !roster_.is_empty() && num_coming() == 0;
  }
  // Returns whether a run has a step at the gate that was not taken over, or waits for the next
  // round.
  bool HasStep(const std::string& worker, const std::string& run) noexcept CONDACC_REQUIRES(mu_);
  // Returns whether the wait of a chief is to end because no worker is left.
  bool ends_if_abandoned() const CONDACC_REQUIRES(mu_) {
    return is_abandoned_ && !options_.wait_for_lost && !full_waits_.empty();
  }
  void BeginRound(int64_t round) noexcept CONDACC_REQUIRES(mu_);
  // Counts a step among those of its worker, so that the worker is not gone.
  void Count(WorkerStep* step) noexcept CONDACC_REQUIRES(mu_);
  void Uncount(WorkerStep* step) noexcept CONDACC_REQUIRES(mu_);
  void FreeSlot(WorkerStep* step) noexcept CONDACC_REQUIRES(mu_);
  // Records whether a run is between two steps, if it is that of the chief. If all workers are
  // needed, the chief's wait for a full round does not end then: the process may be saving a
  // checkpoint, and the variables must not change meanwhile.
  void HoldChief(const std::string& run, bool is_between_steps) noexcept CONDACC_REQUIRES(mu_);
  // Ends the steps and waits of a worker, because another run or session of it has come.
  void EndSteps(const std::string& worker) noexcept CONDACC_REQUIRES(mu_);
  // Records that a worker begins a wait. Returns false if another run has replaced the worker's.
  // May throw std::bad_alloc, and then nothing has changed.
  bool NoteWait(const GateWait& wait) CONDACC_REQUIRES(mu_);
  // Returns whether a chief that the gate does not belong to may take the round as a deputy.
  bool MayDeputize() const CONDACC_REQUIRES(mu_) {
    return is_open() && is_full() && !chief_came_ && deputy_round_ != round_;
  }
  // Returns whether the chief that the gate belongs to waits.
  bool HasChiefWait() const noexcept CONDACC_REQUIRES(mu_);
  // Returns whether the wait of a chief must be released now.
  bool MustReleaseChief(const GateWait& wait, GateWait::End* end) const CONDACC_REQUIRES(mu_);
  GateWait::List* ListOf(const GateWait& wait) noexcept CONDACC_REQUIRES(mu_);
  // Ends a wait, which is completed when the lock has been released.
  void Release(GateWait* wait, const GateWait::End& end) noexcept CONDACC_REQUIRES(mu_);
  // Returns whether a wait must be released now, because its event has happened or because of an
  // error, which is output.
  bool MustRelease(const GateWait& wait, GateWait::End* end) const noexcept CONDACC_REQUIRES(mu_);
  // Releases waits of workers, one for each credit.
  void SpendCredits() noexcept CONDACC_REQUIRES(mu_);
  // Releases the wait if it must be released now.
  void TryRelease(GateWait* wait) noexcept CONDACC_REQUIRES(mu_);
  // Returns whether any wait must be released now. Looks at all of them; only for invariants.
  bool HasOverlookedWait() const CONDACC_REQUIRES(mu_);
  // Releases all waits that must be released now, and arms the timer. Called after each event.
  // `added` is the wait that the event has added. The other waits are looked at only if something
  // has changed that decides about them, so that an event of one worker costs the same however
  // many others wait.
  void ReleaseWaits(GateWait* added = nullptr) noexcept CONDACC_REQUIRES(mu_);
  // Schedules OnTimer() for the time when the next takeover, log line or report is due. If no timer
  // is available, the next event tries again.
  void ArmTimer() noexcept CONDACC_REQUIRES(mu_);
  void CancelTimer() noexcept CONDACC_REQUIRES(mu_);
  Clock::time_point NextDeadline() const noexcept CONDACC_REQUIRES(mu_);
  // Returns when a wait for an opening or a report is due.
  Clock::time_point DeadlineOf(const GateWait& wait) const noexcept CONDACC_REQUIRES(mu_);
  // Finds out anew when the first of them is due.
  void FindWaitDeadline() noexcept CONDACC_REQUIRES(mu_);
  void OnTimer();
  // Releases the observers whose GateWait::patience the round has exceeded.
  void ReleaseReports(Clock::time_point now) noexcept CONDACC_REQUIRES(mu_);
  // Ends the waits of the chief, because no worker is left.
  void EndAbandonedRound() noexcept CONDACC_REQUIRES(mu_);
  // Counts as lost all workers that do not wait, and frees their slots. Does nothing unless a
  // worker waits for the next round and some slot is not complete.
  void TakeOver() noexcept CONDACC_REQUIRES(mu_);
  // Waits no longer for listed workers that have not come, and tells the chief's observer of them.
  void StopExpecting() noexcept CONDACC_REQUIRES(mu_);
  std::string DescribeAbsent() const CONDACC_REQUIRES(mu_);
  std::string DescribeLocked(const std::string& gate) const CONDACC_REQUIRES(mu_);
  // Returns the same, or a shorter text if memory is short.
  std::string TryDescribe(const std::string& gate) const noexcept CONDACC_REQUIRES(mu_);

  const std::string where_;
  const Log log_;

  mutable Mutex mu_;
  Options options_ CONDACC_GUARDED_BY(mu_);
  ChiefState chief_ CONDACC_GUARDED_BY(mu_);
  bool chief_came_ CONDACC_GUARDED_BY(mu_) = false;   // The chief has waited since Prepare().
  bool holds_chief_ CONDACC_GUARDED_BY(mu_) = false;  // See HoldChief().
  int64_t round_ CONDACC_GUARDED_BY(mu_) = 0;
  int64_t deputy_round_ CONDACC_GUARDED_BY(mu_) = 0;  // The last round that a deputy has taken.
  Slots slots_ CONDACC_GUARDED_BY(mu_){1};
  Roster roster_ CONDACC_GUARDED_BY(mu_);
  WorkerStep::List steps_ CONDACC_GUARDED_BY(mu_);  // The steps that have not ended.
  int num_needed_ CONDACC_GUARDED_BY(mu_) = 0;      // Workers that the first round needs.
  // Listed workers that are to come, until the time below.
  int num_expected_ CONDACC_GUARDED_BY(mu_) = 0;
  Clock::time_point expected_until_ CONDACC_GUARDED_BY(mu_) = Clock::time_point::max();
  // Which listed workers have not come in time, until the chief's observer has been told.
  std::string absent_ CONDACC_GUARDED_BY(mu_);
  bool has_tokens_ CONDACC_GUARDED_BY(mu_) = false;  // AddCredits() has been called.
  int64_t credits_ CONDACC_GUARDED_BY(mu_) = 0;
  int64_t credit_round_ CONDACC_GUARDED_BY(mu_) = 0;  // The round of the last AddCredits().
  uint64_t next_id_ CONDACC_GUARDED_BY(mu_) = 1;
  int64_t num_takeovers_ CONDACC_GUARDED_BY(mu_) = 0;
  int64_t num_dropped_ CONDACC_GUARDED_BY(mu_) = 0;
  Clock::time_point last_progress_ CONDACC_GUARDED_BY(mu_) = Clock::now();
  Clock::time_point round_began_ CONDACC_GUARDED_BY(mu_) = Clock::now();
  bool logged_ CONDACC_GUARDED_BY(mu_) = false;        // The current round has been logged.
  bool is_abandoned_ CONDACC_GUARDED_BY(mu_) = false;  // Since `abandoned_since_`.
  Clock::time_point abandoned_since_ CONDACC_GUARDED_BY(mu_) = Clock::now();

  // What decides, apart from credits and free slots, which waits are to end: the changes of the
  // chief, the round, whether it is full, and whether the chief is held.
  using Situation = std::tuple<int64_t, int64_t, bool, bool>;
  // The situation in which all waits were last looked at.
  Situation examined_ CONDACC_GUARDED_BY(mu_);

  GateWait::List round_waits_ CONDACC_GUARDED_BY(mu_);
  GateWait::List open_waits_ CONDACC_GUARDED_BY(mu_);
  GateWait::List full_waits_ CONDACC_GUARDED_BY(mu_);
  GateWait::List report_waits_ CONDACC_GUARDED_BY(mu_);
  GateWait::List ended_ CONDACC_GUARDED_BY(mu_);
  TimerQueue::Ticket timer_ CONDACC_GUARDED_BY(mu_) = TimerQueue::kNoTicket;
  Clock::time_point timer_deadline_ CONDACC_GUARDED_BY(mu_) = Clock::time_point::max();
  // When the first wait for an opening or a report is due, or earlier: waits that have ended since
  // then are not taken into account.
  Clock::time_point wait_deadline_ CONDACC_GUARDED_BY(mu_) = Clock::time_point::max();
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_SYNC_GATE_H_
