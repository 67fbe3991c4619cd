#include "cc/core/gate/sync_gate.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace condacc {

GateReservation::GateReservation(std::shared_ptr<SyncGate> gate, std::string worker,
                                 int64_t local_step)
    : gate_(std::move(gate)), worker_(std::move(worker)), round_(local_step) {}

GateReservation::~GateReservation() { gate_->End(this, /*done=*/false); }

GateReservation::Claim GateReservation::ClaimSlot() { return gate_->Claim(this); }

void GateReservation::Done() { gate_->End(this, /*done=*/true); }

SyncGate::SyncGate(std::string name, Clock::duration report, Log log)
    : name_(std::move(name)), log_(std::move(log)) {
  options_.report = report;
}

std::unique_ptr<GateReservation> SyncGate::Enter(const std::string& worker, int64_t local_step) {
  ReleasedWaits released;
  auto reservation = std::make_unique<GateReservation>(shared_from_this(), worker, local_step);
  MutexLock lock(&mu_);
  roster_.Note(worker, WorkerState::kComputing);
  reservation->id_ = next_id_++;
  last_event_ = Clock::now();
  ReleaseWaits(&released);
  return reservation;
}

GateReservation::Claim SyncGate::Claim(GateReservation* reservation) {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  if (!reservation->claimed_) {
    reservation->claimed_ = true;
    last_event_ = Clock::now();
    if (is_open() && reservation->round_ == round_ && !reservation->ended_) {
      reservation->slot_ = slots_.Hold(reservation->id_);
    }
    if (reservation->slot_ == Slots::kNone) ++num_refused_;
    roster_.NoteKnown(reservation->worker_, WorkerState::kComputing);
    ReleaseWaits(&released);
  }
  GateReservation::Claim claim;
  claim.granted = reservation->slot_ != Slots::kNone;
  claim.round = claim.granted ? reservation->round_ : std::numeric_limits<int64_t>::min();
  claim.slot = claim.granted ? reservation->slot_ : 0;
  return claim;
}

void SyncGate::End(GateReservation* reservation, bool done) {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  if (std::exchange(reservation->ended_, true)) return;
  const bool has_slot = reservation->slot_ != Slots::kNone && reservation->round_ == round_;
  if (done) {
    last_event_ = Clock::now();
    if (has_slot) slots_.Complete(reservation->slot_);
    roster_.NoteKnown(reservation->worker_, WorkerState::kBetweenSteps);
  } else {
    if (has_slot) slots_.Free(reservation->slot_, reservation->id_);
    roster_.NoteKnown(reservation->worker_, WorkerState::kLost);
  }
  ReleaseWaits(&released);
}

void SyncGate::Leave(const std::string& worker) {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  roster_.Note(worker, WorkerState::kLeft);
  ReleaseWaits(&released);
}

Status SyncGate::Prepare(const std::string& chief, int64_t at_least, int64_t* round) {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  const int64_t before = std::max(round_, at_least);
  if (before == std::numeric_limits<int64_t>::max()) {
    return Status(StatusCode::kOutOfRange,
                  "Gate '" + name_ + "' has no round after " + std::to_string(before));
  }
  chief_ = chief;
  chief_dismissed_ = false;
  chief_came_ = false;
  open_ = false;
  BeginRound(before + 1);
  *round = round_;
  ReleaseWaits(&released);
  return Status();
}

Status SyncGate::Open(const std::string& chief, int64_t round, const Options& options) {
  if (options.num_slots < 1 || options.num_workers < 1) {
    return Status(StatusCode::kInvalidArgument, "Gate '" + name_ +
                                                    "' expects at least 1 slot and 1 worker, got " +
                                                    std::to_string(options.num_slots) + " and " +
                                                    std::to_string(options.num_workers));
  }
  ReleasedWaits released;
  MutexLock lock(&mu_);
  if (chief != chief_ || round != round_ || open_) {
    return Status(StatusCode::kFailedPrecondition,
                  "Gate '" + name_ + "' is not to be opened at round " + std::to_string(round) +
                      " by this chief, but at round " + std::to_string(round_) +
                      ": another chief has begun to open it");
  }
  slots_.Reset(options.num_slots);
  if (std::exchange(closed_, false)) roster_.ForgetAllThatDoNotWait();
  options_ = options;
  open_ = true;
  credits_ = 0;
  BeginRound(round_);
  ReleaseWaits(&released);
  ArmTimer();
  return Status();
}

bool SyncGate::Advance(int64_t round) {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  const bool is_last = round_ == std::numeric_limits<int64_t>::max();
  if (!is_open() || round != round_ || !is_full() || is_last) return false;
  BeginRound(round_ + 1);
  ReleaseWaits(&released);
  return true;
}

void SyncGate::AddCredits(int64_t count) {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  credits_ += std::max<int64_t>(count, 0);
  credit_round_ = round_;
  ReleaseWaits(&released);
}

void SyncGate::Close() {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  closed_ = true;
  ReleaseWaits(&released);
}

void SyncGate::Dismiss(const std::string& chief, const std::string& worker) {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  if (chief != chief_) return;
  dismissed_worker_ = worker;
  chief_dismissed_ = true;
  ReleaseWaits(&released);
}

void SyncGate::TakeOver() {
  ReleasedWaits released;
  MutexLock lock(&mu_);
  TakeOverLocked(&released);
}

SyncGate::State SyncGate::state() const {
  MutexLock lock(&mu_);
  return {is_open(), round_, slots_.num_complete(), num_takeovers_, num_refused_};
}

std::string SyncGate::Describe() const {
  MutexLock lock(&mu_);
  return DescribeLocked();
}

void SyncGate::BeginRound(int64_t round) {
  round_ = round;
  slots_.Reset(slots_.size());
  last_event_ = round_began_ = Clock::now();
  logged_ = false;
}

}  // namespace condacc
