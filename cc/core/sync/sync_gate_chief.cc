// The methods of SyncGate for chiefs.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "cc/core/sync/sync_gate.h"

namespace condacc {

Status SyncGate::Prepare(const std::string& chief, int64_t above, int64_t* round) {
  std::string name = chief;
  {
    CompletingLock lock(&mu_, &ended_);
    const int64_t before = std::max(round_, above);
    if (before < std::numeric_limits<int64_t>::max()) {
      if (chief_.is_closed()) {
        for (WorkerStep* const step : steps_) Uncount(step);
        roster_.ForgetAllThatAreAbsent();
      }
      chief_.Prepare(std::move(name));
      chief_came_ = false;
      BeginRound(before + 1);
      *round = round_;
      // A chief waits only after it has opened the gate, so these are waits of earlier sessions.
      while (!full_waits_.empty()) Release(full_waits_.front(), kReplacedChief);
      ReleaseWaits();
      return Status();
    }
  }
  return Status(StatusCode::kOutOfRange, "Gate '" + name_ + "' has no round after " +
                                             std::to_string(std::numeric_limits<int64_t>::max()));
}

Status SyncGate::Open(const std::string& chief, int64_t round, const Options& options) {
  if (options.num_slots < 1 || options.num_workers < 1) {
    return Status(StatusCode::kInvalidArgument, "Gate '" + name_ +
                                                    "' expects at least 1 slot and 1 worker, got " +
                                                    std::to_string(options.num_slots) + " and " +
                                                    std::to_string(options.num_workers));
  }
  Slots slots(options.num_slots);
  {
    CompletingLock lock(&mu_, &ended_);
    if (chief_.IsPreparing(chief) && round == round_) {
      std::swap(slots_, slots);
      options_ = options;
      chief_.Open();
      credits_ = 0;
      BeginRound(round_);
      ReleaseWaits();
      return Status();
    }
  }
  return NotThisChief("open");
}

bool SyncGate::Advance(const std::string& chief, int64_t round) {
  CompletingLock lock(&mu_, &ended_);
  const bool is_last = round_ == std::numeric_limits<int64_t>::max();
  if (!chief_.Is(chief) || !is_open() || round != round_ || !is_full() || is_last) return false;
  BeginRound(round_ + 1);
  ReleaseWaits();
  return true;
}

Status SyncGate::AddCredits(const std::string& chief, int64_t count) {
  {
    CompletingLock lock(&mu_, &ended_);
    if (!chief_.has_been_prepared() || chief_.Is(chief)) {
      const int64_t room = std::numeric_limits<int64_t>::max() - credits_;
      credits_ += std::min(std::max<int64_t>(count, 0), room);
      credit_round_ = round_;
      ReleaseWaits();
      return Status();
    }
  }
  return NotThisChief("add credits to");
}

Status SyncGate::Close(const std::string& chief) {
  {
    CompletingLock lock(&mu_, &ended_);
    if (chief_.Is(chief)) {
      chief_.Close();
      ReleaseWaits();
      return Status();
    }
  }
  return NotThisChief("close");
}

void SyncGate::Dismiss(const std::string& chief) {
  CompletingLock lock(&mu_, &ended_);
  if (!chief_.Is(chief)) return;
  chief_.Dismiss();
  ReleaseWaits();
}

Status SyncGate::NotThisChief(const char* operation) const {
  return Status(StatusCode::kFailedPrecondition,
                "Gate '" + name_ + "': cannot " + operation +
                    " it: the gate belongs to another chief, or chief_init_op has not run. A chief "
                    "that was replaced has to end");
}

}  // namespace condacc
