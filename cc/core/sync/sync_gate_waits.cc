// The waits at a gate: how they begin and when they end.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "cc/core/base/invariant.h"
#include "cc/core/base/reached.h"
#include "cc/core/sync/sync_gate.h"

namespace condacc {
namespace {

constexpr GateWait::End kEvent{};
constexpr GateWait::End kCancelled{StatusCode::kCancelled, "The wait was cancelled"};
constexpr GateWait::End kTrainingEnded{StatusCode::kOutOfRange, "Training has ended"};
constexpr GateWait::End kDismissed{StatusCode::kOutOfRange, "The session ends"};
constexpr GateWait::End kReplacedChief{
    StatusCode::kFailedPrecondition,
    "Another chief has opened the gate since this one did, and this one has to end"};
constexpr GateWait::End kChiefEnded{StatusCode::kCancelled,
                                    "The chief of this worker's process has ended"};

// Returns the number of a worker in which its wait is counted.
int Roster::Worker::* NumberOf(const GateWait& wait) {
  return wait.what == GateWait::For::kNextRound ? &Roster::Worker::num_round_waits
                                                : &Roster::Worker::num_open_waits;
}

}  // namespace

const GateWait::End SyncGate::kReplacedWorker{
    StatusCode::kFailedPrecondition,
    "This worker has been replaced by another process or session, and this one has to end"};

void SyncGate::Wait(const GateWait::Ptr& wait) {
  CompletingLock lock(&mu_, &ended_);
  wait->is_late = wait->what == GateWait::For::kOpening && chief_.is_closed() &&
                  !roster_.Knows(wait->who) && roster_.NumUnseen(options_.num_workers) > 0;
  wait->began = Clock::now();
  const bool is_replaced = wait->is_of_worker() && !NoteWait(*wait);
  wait->BeginWait(ListOf(*wait));
  if (is_replaced) {
    Release(wait.get(), kReplacedWorker);
  } else if (wait->is_cancelled) {
    Release(wait.get(), kCancelled);
  } else if (wait->what == GateWait::For::kFullRound && chief_.Is({wait->run, wait->session})) {
    chief_came_ = true;
    chief_.SetGone(false);
  }
  ReleaseWaits(wait.get());
}

void SyncGate::Cancel(const GateWait::Ptr& wait) {
  CompletingLock lock(&mu_, &ended_);
  wait->is_cancelled = true;
  if (!wait->is_waiting()) return;
  const bool is_of_chief = wait->what == GateWait::For::kFullRound;
  if (is_of_chief && chief_.Is({wait->run, wait->session})) chief_.SetGone(true);
  Release(wait.get(), kCancelled);
  ReleaseWaits();
}

bool SyncGate::NoteWait(const GateWait& wait) {
  // A worker that waits for the next round has entered before, so its run is not new.
  const bool may_replace = wait.what == GateWait::For::kOpening;
  if (may_replace || !roster_.Knows(wait.who)) {
    const auto coming = roster_.Come(wait.who, wait.run, options_.num_workers);
    if (coming != Roster::Coming::kReplaced) EndSteps(wait.who);
  }
  return roster_.Add(wait.who, wait.run, NumberOf(wait), 1);
}

bool SyncGate::MustReleaseChief(const GateWait& wait, GateWait::End* end) const {
  const ChiefView chief{wait.run, wait.session};
  if (chief_.Is(chief)) {
    if (chief_.is_dismissed() || chief_.is_closed()) *end = kTrainingEnded;
    const bool is_ready = is_open() && is_full() && !holds_chief_ && deputy_round_ != round_;
    return end->code != StatusCode::kOk || is_ready;
  }
  if (chief_.WasDismissed(chief)) *end = kDismissed;
  if (chief_.WasReplaced(chief)) *end = kReplacedChief;
  return end->code != StatusCode::kOk || MayDeputize();
}

GateWait::List* SyncGate::ListOf(const GateWait& wait) noexcept {
  switch (wait.what) {
    case GateWait::For::kNextRound:
      return &round_waits_;
    case GateWait::For::kOpening:
      return &open_waits_;
    case GateWait::For::kFullRound:
      return &full_waits_;
    case GateWait::For::kReport:
      break;
  }
  return &report_waits_;
}

void SyncGate::Release(GateWait* wait, const GateWait::End& end) noexcept {
  CONDACC_REACHED("wait ends", static_cast<int>(wait->what), static_cast<int>(end.code));
  wait->end = end;
  wait->round = round_;
  if (wait->is_of_worker() && roster_.Add(wait->who, wait->run, NumberOf(*wait), -1)) {
    const bool goes_on = end.code == StatusCode::kOk;
    roster_.See(wait->who, wait->run, goes_on ? WorkerState::kBetweenSteps : WorkerState::kLost);
    const bool is_here = roster_.Find(wait->who, wait->run)->is_here();
    if (wait->what == GateWait::For::kNextRound) HoldChief(wait->run, goes_on && !is_here);
  }
  wait->EndWait(&ended_);
}

bool SyncGate::MustRelease(const GateWait& wait, GateWait::End* end) const noexcept {
  switch (wait.what) {
    case GateWait::For::kNextRound:
      if (chief_.is_closed()) {
        *end = kTrainingEnded;
        return true;
      }
      if (chief_.is_dismissed() && chief_.IsNamed(wait.run)) {
        *end = kChiefEnded;
        return true;
      }
      return is_open() && wait.after != round_;
    case GateWait::For::kOpening:
      return is_open();
    case GateWait::For::kFullRound:
      return MustReleaseChief(wait, end);
    case GateWait::For::kReport:
      if (chief_.WasDismissed({wait.run, wait.session})) {
        *end = kDismissed;
        return true;
      }
      return !absent_.empty() && chief_.IsNamed(wait.run);
  }
  return false;
}

// Credits are spent before workers are released for the next round, like tokens that were in the
// queue before. Otherwise the speed of the chief would decide whether a worker gets one.
void SyncGate::SpendCredits() noexcept {
  while (credits_ > 0 && is_open() && !round_waits_.empty()) {
    GateWait* const wait = round_waits_.front().get();
    Release(wait, kEvent);
    HoldChief(wait->run, false);  // It has brought its gradient, and may begin no other step.
    CONDACC_REACHED("credit is spent");
    wait->round = credit_round_;
    --credits_;
  }
}

void SyncGate::TryRelease(GateWait* wait) noexcept {
  GateWait::End end;
  if (!MustRelease(*wait, &end)) return;
  const bool is_ok = end.code == StatusCode::kOk;
  const bool is_served = wait->what == GateWait::For::kFullRound && is_ok;
  if (is_served && !chief_.Is({wait->run, wait->session})) {
    CONDACC_REACHED("deputy");
    deputy_round_ = round_;
  }
  Release(wait, end);
  if (wait->what == GateWait::For::kReport && is_ok) {
    wait->report.swap(absent_);
    wait->round = wait->after;  // The report of the round is still to come.
  }
}

bool SyncGate::HasOverlookedWait() const {
  for (const GateWait::List* const list :
       {&round_waits_, &open_waits_, &full_waits_, &report_waits_}) {
    for (const GateWait::Ptr& wait : *list) {
      GateWait::End end;
      if (MustRelease(*wait, &end)) return true;
    }
  }
  return false;
}

void SyncGate::ReleaseWaits(GateWait* added) noexcept {
  roster_.ForgetReplaced(options_.num_workers);
  SpendCredits();
  const Situation situation(chief_.num_changes(), round_, is_full(), holds_chief_);
  if (situation != examined_) {
    examined_ = situation;
    for (GateWait::List* const list : {&round_waits_, &open_waits_, &full_waits_, &report_waits_}) {
      for (auto next = list->begin(); next != list->end();) TryRelease((next++)->get());
    }
    FindWaitDeadline();
  } else if (added != nullptr && added->is_waiting()) {
    TryRelease(added);
    wait_deadline_ = std::min(wait_deadline_, DeadlineOf(*added));
  }
  while (is_open() && !round_waits_.empty()) {
    const int num_waiting = static_cast<int>(round_waits_.size());
    if (slots_.num_free() <= num_coming() - num_waiting - slots_.num_held()) break;
    CONDACC_REACHED("another gradient");
    Release(round_waits_.front().get(), kEvent);
  }
  CONDACC_INVARIANT(roster_.CountsAreRight() && slots_.CountsAreRight());
  CONDACC_INVARIANT(!HasOverlookedWait());
  if (!std::exchange(is_abandoned_, lacks_workers())) abandoned_since_ = Clock::now();
  ArmTimer();
}

}  // namespace condacc
