// The methods of SyncGate for chiefs.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "cc/core/sync/sync_gate.h"

namespace condacc {

Status SyncGate::Prepare(const Chief& chief, int64_t above, bool volunteers, Prepared* prepared,
                         const std::string& worker) {
  Chief owner = chief;
  {
    CompletingLock lock(&mu_, &ended_);
    const bool goes_on = chief_.GoesOn(chief.view(), volunteers) && (is_open() || above <= round_);
    const bool begins = !goes_on && (!volunteers || chief_.MayVolunteer(chief.view()));
    const int64_t before = std::max(round_, above);
    if (!begins || before < std::numeric_limits<int64_t>::max()) {
      // Reserve() and Come() may throw std::bad_alloc. Nothing has changed yet, and nothing below
      // throws.
      chief_.Reserve();
      const auto coming = worker.empty() ? Roster::Coming::kReplaced
                                         : roster_.Come(worker, chief.name, options_.num_workers);
      const bool has_new_session = begins && coming != Roster::Coming::kReplaced;
      if (has_new_session || coming == Roster::Coming::kReplaces) EndSteps(worker);
      if (!begins) {
        *prepared = {round_, /*is_chief=*/goes_on, /*begins=*/false};
        if (!worker.empty()) ReleaseWaits();
        return Status();
      }
      holds_chief_ = false;
      const bool was_closed = chief_.is_closed();
      chief_.Prepare(std::move(owner), volunteers);
      if (was_closed) {
        for (WorkerStep* const step : steps_) Uncount(step);
        roster_.ForgetAllThatAreAbsent(worker);
      }
      chief_came_ = HasChiefWait();
      BeginRound(before + 1);
      *prepared = {round_, /*is_chief=*/true, /*begins=*/true};
      ReleaseWaits();
      return Status();
    }
  }
  return Status(StatusCode::kOutOfRange,
                "There is no round after " + std::to_string(std::numeric_limits<int64_t>::max()));
}

bool SyncGate::HasChiefWait() const noexcept {
  for (const GateWait::Ptr& wait : full_waits_) {
    if (chief_.Is({wait->run, wait->session})) return true;
  }
  return false;
}

Status SyncGate::Open(const Chief& chief, int64_t round, const Options& options, bool volunteers) {
  if (options.num_slots < 1 || options.num_workers < 1) {
    return Status(StatusCode::kInvalidArgument, "Expected at least 1 slot and 1 worker, got " +
                                                    std::to_string(options.num_slots) + " and " +
                                                    std::to_string(options.num_workers));
  }
  Slots slots(options.num_slots);
  Options copy = options;
  const int num_required = std::min(options.num_slots, options.num_workers);
  {
    CompletingLock lock(&mu_, &ended_);
    if (chief_.IsPreparing(chief.view()) && round == round_) {
      std::swap(slots_, slots);
      std::swap(options_, copy);
      chief_.Open();
      credits_ = 0;
      num_needed_ = chief_.is_volunteer() && !has_tokens_ ? num_required : 0;
      const auto num_listed = static_cast<int>(options_.listed.size());
      const bool expects = options_.start > Clock::duration::zero();
      num_expected_ = expects ? std::min(num_required, num_listed) : 0;
      expected_until_ = Clock::now() + options_.start;
      absent_.clear();
      BeginRound(round_);
      ReleaseWaits();
      return Status();
    }
    const bool is_open_already =
        is_open() && chief_.GoesOn(chief.view(), volunteers) && round <= round_;
    if (is_open_already || volunteers) return Status();
  }
  return NotThisChief("open");
}

bool SyncGate::Advance(const Chief& chief, int64_t round) {
  CompletingLock lock(&mu_, &ended_);
  const bool is_last = round_ == std::numeric_limits<int64_t>::max();
  const bool is_deputy = round == deputy_round_ && !chief_.WasReplaced(chief.view());
  if (!chief_.Is(chief.view()) && !is_deputy) return false;
  if (!is_open() || round != round_ || !is_full() || is_last) return false;
  BeginRound(round_ + 1);
  ReleaseWaits();
  return true;
}

Status SyncGate::AddCredits(const Chief& chief, int64_t count) {
  {
    CompletingLock lock(&mu_, &ended_);
    if (!chief_.has_been_prepared() || chief_.Is(chief.view())) {
      const int64_t room = std::numeric_limits<int64_t>::max() - credits_;
      credits_ += std::min(std::max<int64_t>(count, 0), room);
      credit_round_ = round_;
      has_tokens_ = true;
      const int64_t num_missing = count < 0 ? 0 : options_.num_slots - count;
      num_needed_ = static_cast<int>(std::clamp<int64_t>(num_missing, 0, options_.num_workers));
      ReleaseWaits();
      return Status();
    }
  }
  return count < 0 ? Status() : NotThisChief("add credits to");
}

Status SyncGate::Close(const Chief& chief) {
  {
    CompletingLock lock(&mu_, &ended_);
    if (chief_.Is(chief.view())) {
      chief_.Close();
      has_tokens_ = false;
      ReleaseWaits();
      return Status();
    }
  }
  return NotThisChief("close");
}

void SyncGate::Dismiss(const Chief& chief) {
  CompletingLock lock(&mu_, &ended_);
  chief_.Dismiss(chief);
  ReleaseWaits();
}

Status SyncGate::NotThisChief(const char* operation) {
  return Status(StatusCode::kFailedPrecondition,
                std::string("Cannot ") + operation +
                    " the gate: it belongs to another chief, or chief_init_op has not run. A chief "
                    "that was replaced has to end");
}

}  // namespace condacc
