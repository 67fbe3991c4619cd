// The waits at a gate: how they begin and when they end.
#include <iterator>
#include <string>

#include "cc/core/gate/sync_gate.h"

namespace condacc {

void SyncGate::Wait(const GateWait::Ptr& wait) {
  ReleasedWaits released;
  GateWait::List node = {wait};
  MutexLock lock(&mu_);
  if (wait->is_of_worker()) roster_.Note(wait->who, WorkerState::kWaiting);
  if (wait->what == GateWait::For::kNextRound) last_event_ = Clock::now();
  GateWait::List* const list = ListOf(*wait);
  list->splice(list->end(), node);
  wait->position = std::prev(list->end());
  wait->waiting = true;
  if (wait->cancelled) {
    ReleaseCancelled(wait, &released);
  } else if (wait->what == GateWait::For::kFullRound && chief_ == wait->who) {
    chief_came_ = true;
  }
  ReleaseWaits(&released);
  ArmTimer();
}

void SyncGate::Cancel(const GateWait::Ptr& wait) {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  wait->cancelled = true;
  if (!wait->waiting) return;
  ReleaseCancelled(wait, &released);
  ReleaseWaits(&released);
}

Status SyncGate::CheckChief(const std::string& chief) const {
  if (chief != chief_) {
    return Status(StatusCode::kFailedPrecondition,
                  "Gate '" + name_ +
                      "' was not opened by this chief: run chief_init_op before; if it was run, "
                      "another chief has opened the gate since, and this one has to end");
  }
  if (chief_dismissed_ || closed_) {
    return Status(StatusCode::kOutOfRange, "Gate '" + name_ + "': training has ended");
  }
  return Status();
}

GateWait::List* SyncGate::ListOf(const GateWait& wait) {
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

GateWait::List::iterator SyncGate::Release(const GateWait::Ptr& wait, const Status& status,
                                           ReleasedWaits* released) {
  wait->waiting = false;
  wait->status = status;
  wait->round = round_;
  const auto position = wait->position;
  const auto next = std::next(position);
  released->Add(ListOf(*wait), position);
  return next;
}

void SyncGate::ReleaseCancelled(const GateWait::Ptr& wait, ReleasedWaits* released) {
  Release(wait, Status(StatusCode::kCancelled, "Gate '" + name_ + "': the wait was cancelled"),
          released);
  if (wait->is_of_worker()) roster_.NoteKnown(wait->who, WorkerState::kLost);
}

bool SyncGate::MustRelease(GateWait* wait, Status* status) {
  switch (wait->what) {
    case GateWait::For::kNextRound:
      if (closed_) {
        *status = Status(StatusCode::kOutOfRange, "Gate '" + name_ + "': training has ended");
        return true;
      }
      if (chief_dismissed_ && wait->who == dismissed_worker_) {
        *status = Status(StatusCode::kCancelled,
                         "Gate '" + name_ + "': the chief of this worker's process has ended");
        return true;
      }
      return open_ && wait->after != round_;
    case GateWait::For::kOpening:
      return is_open();
    case GateWait::For::kFullRound:
      *status = CheckChief(wait->who);
      return !status->ok() || (open_ && is_full());
    case GateWait::For::kReport:
      break;
  }
  return false;
}

// A credit comes before the next round, as a token that was in the queue before does: otherwise it
// would depend on the chief's speed whether a worker gets it.
void SyncGate::SpendCredits(ReleasedWaits* released) {
  while (credits_ > 0 && is_open() && !round_waits_.empty()) {
    const GateWait::Ptr wait = round_waits_.front();
    roster_.NoteKnown(wait->who, WorkerState::kBetweenSteps);
    Release(wait, Status(), released);
    wait->round = credit_round_;
    --credits_;
  }
}

void SyncGate::ReleaseWaits(ReleasedWaits* released) {
  SpendCredits(released);
  for (GateWait::List* const list : {&round_waits_, &open_waits_, &full_waits_}) {
    for (auto next = list->begin(); next != list->end();) {
      const GateWait::Ptr& wait = *next;
      Status status;
      if (!MustRelease(wait.get(), &status)) {
        ++next;
        continue;
      }
      if (wait->is_of_worker()) {
        roster_.NoteKnown(wait->who, status.ok() ? WorkerState::kBetweenSteps : WorkerState::kLost);
      }
      next = Release(wait, status, released);
    }
  }
  if (!is_open()) return;
  while (!round_waits_.empty()) {
    const GateWait::Ptr wait = round_waits_.front();
    const int num_waiting = static_cast<int>(round_waits_.size());
    const int num_coming =
        roster_.NumPresent(options_.num_workers) - num_waiting - slots_.num_held();
    if (slots_.num_free() <= num_coming) return;
    roster_.NoteKnown(wait->who, WorkerState::kBetweenSteps);
    Release(wait, Status(), released);
  }
}

}  // namespace condacc
