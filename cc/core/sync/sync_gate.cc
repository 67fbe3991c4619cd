#include "cc/core/sync/sync_gate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cc/core/base/reached.h"

namespace condacc {

WorkerStep::WorkerStep(std::shared_ptr<SyncGate> gate, std::string worker, std::string run,
                       int64_t local_step)
    : gate_(std::move(gate)),
      worker_(std::move(worker)),
      run_(std::move(run)),
      round_(local_step) {}

WorkerStep::~WorkerStep() { gate_->End(this, /*is_done=*/false, /*any_added=*/false); }

WorkerStep::Claim WorkerStep::ClaimSlot() { return gate_->Claim(this); }

bool WorkerStep::Done(bool any_added) { return gate_->End(this, /*is_done=*/true, any_added); }

SyncGate::SyncGate(std::string where, Clock::duration report, Log log)
    : where_(std::move(where)), log_(std::move(log)) {
  options_.report = report;
}

Status SyncGate::Enter(const std::string& worker, const std::string& run, int64_t local_step,
                       std::unique_ptr<WorkerStep>* step) {
  auto entered = std::make_unique<WorkerStep>(shared_from_this(), worker, run, local_step);
  WorkerStep::List node = {entered.get()};
  const char* error = nullptr;
  {
    CompletingLock lock(&mu_, &ended_);
    // A round with backup workers can end while one of its steps is under way.
    const bool has_backups = options_.num_slots < options_.num_workers;
    const bool is_second = has_backups && HasStep(worker, run);
    const auto coming =
        is_second ? Roster::Coming::kSame : roster_.Come(worker, run, options_.num_workers);
    CONDACC_REACHED("enter", static_cast<int>(coming), is_second);
    if (is_second) {
      error =
          "makes two steps of one session at once, so its gradients may be those of an earlier "
          "round. Make one step after another, also after one that was given up, or give each "
          "thread a graph and a session of its own";
    } else if (coming == Roster::Coming::kReplaced) {
      error = "has been replaced by another process, and this one has to end";
    } else {
      if (coming == Roster::Coming::kReplaces) EndSteps(worker);
      HoldChief(run, false);
      entered->id_ = next_id_++;
      entered->position_ = node.begin();
      steps_.splice(steps_.end(), node);
      entered->at_gate_ = true;
      Count(entered.get());
      ReleaseWaits();
    }
  }
  if (error != nullptr) {
    return Status(StatusCode::kFailedPrecondition, "Worker " + worker + " " + error);
  }
  *step = std::move(entered);
  return Status();
}

bool SyncGate::HasStep(const std::string& worker, const std::string& run) noexcept {
  const Roster::Worker* const found = roster_.Find(worker, run);
  return found != nullptr && found->num_steps + found->num_round_waits > 0;
}

WorkerStep::Claim SyncGate::Claim(WorkerStep* step) noexcept {
  CompletingLock lock(&mu_, &ended_);
  if (!std::exchange(step->claimed_, true)) {
    // Others may have taken the step over, or taken the place of its worker, which is then unknown
    // and whose steps are not counted. Such a step must not hold a slot, because workers wait only
    // for the steps that are counted.
    if (step->at_gate_ && !step->replaced_) Count(step);
    if (step->counted_ && is_open() && step->round_ == round_) {
      step->slot_ = slots_.Hold(step->id_);
    }
    CONDACC_REACHED("claim", step->slot_ != Slots::kNone,
                    step->replaced_  ? 2
                    : step->counted_ ? 0
                                     : 1,
                    step->round_ == round_);
    if (step->slot_ != Slots::kNone) {
      last_progress_ = Clock::now();
    } else {
      step->dropped_ = true;
      ++num_dropped_;
    }
    ReleaseWaits();
  }
  WorkerStep::Claim claim;
  claim.granted = step->slot_ != Slots::kNone;
  claim.round = claim.granted ? step->round_ : std::numeric_limits<int64_t>::min();
  claim.slot = claim.granted ? step->slot_ : 0;
  return claim;
}

bool SyncGate::End(WorkerStep* step, bool is_done, bool any_added) noexcept {
  CompletingLock lock(&mu_, &ended_);
  if (!std::exchange(step->at_gate_, false)) return step->dropped_;
  steps_.erase(step->position_);
  Uncount(step);
  const bool granted = step->slot_ != Slots::kNone;
  CONDACC_REACHED("step ends", is_done, granted, any_added);
  if (is_done && granted) {
    if (step->round_ == round_ && slots_.Complete(step->slot_)) {
      last_progress_ = Clock::now();
    }
    if (!any_added) {
      step->dropped_ = true;
      ++num_dropped_;
    }
  } else {
    FreeSlot(step);
  }
  // The end of a step of an earlier session says nothing about the worker's present one.
  const WorkerState absence = is_done ? WorkerState::kBetweenSteps : WorkerState::kLost;
  if (!step->replaced_) roster_.See(step->worker_, step->run_, absence);
  ReleaseWaits();
  return step->dropped_;
}

void SyncGate::Leave(const std::string& worker, const std::string& run, bool is_lost) {
  CompletingLock lock(&mu_, &ended_);
  const auto absence = is_lost ? WorkerState::kLost : WorkerState::kLeft;
  roster_.Leave(worker, run, absence, options_.num_workers);
  HoldChief(run, false);
  ReleaseWaits();
}

void SyncGate::Lose(const std::string& worker) {
  CompletingLock lock(&mu_, &ended_);
  if (!roster_.Knows(worker) && roster_.NumUnseen(options_.num_workers) == 0) return;
  roster_.Leave(worker, /*run=*/"", WorkerState::kLost, options_.num_workers);
  for (WorkerStep* const step : steps_) {
    if (step->worker_ != worker) continue;
    FreeSlot(step);
    Uncount(step);
  }
  ReleaseWaits();
}

SyncGate::State SyncGate::state() const {
  MutexLock lock(&mu_);
  return {is_open(), round_, slots_.num_complete(), num_takeovers_, num_dropped_};
}

std::string SyncGate::Describe() const {
  MutexLock lock(&mu_);
  return DescribeLocked(where_);
}

void SyncGate::HoldChief(const std::string& run, bool is_between_steps) noexcept {
  if (!chief_.IsNamed(run)) return;
  holds_chief_ = is_between_steps && options_.num_slots >= options_.num_workers;
  CONDACC_REACHED("hold chief", holds_chief_);
}

void SyncGate::Count(WorkerStep* step) noexcept {
  if (step->counted_) return;
  step->counted_ = roster_.Add(step->worker_, step->run_, &Roster::Worker::num_steps, 1);
}

void SyncGate::Uncount(WorkerStep* step) noexcept {
  if (!std::exchange(step->counted_, false)) return;
  roster_.Add(step->worker_, step->run_, &Roster::Worker::num_steps, -1);
}

void SyncGate::FreeSlot(WorkerStep* step) noexcept {
  if (step->slot_ == Slots::kNone || step->round_ != round_) return;
  slots_.Free(step->slot_, step->id_);
}

void SyncGate::EndSteps(const std::string& worker) noexcept {
  for (WorkerStep* const step : steps_) {
    if (step->worker_ != worker) continue;
    FreeSlot(step);
    Uncount(step);
    step->replaced_ = true;
  }
  for (GateWait::List* const list : {&round_waits_, &open_waits_}) {
    for (auto next = list->begin(); next != list->end();) {
      GateWait* const wait = (next++)->get();
      if (wait->who == worker) Release(wait, kReplacedWorker);
    }
  }
}

void SyncGate::BeginRound(int64_t round) noexcept {
  round_ = round;
  slots_.FreeAll();
  last_progress_ = round_began_ = Clock::now();
  logged_ = false;
}

}  // namespace condacc
