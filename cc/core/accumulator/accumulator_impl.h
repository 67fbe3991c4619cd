// Definitions of Accumulator's methods; included where it is instantiated.
#ifndef CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_IMPL_H_
#define CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_IMPL_H_

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/base/status.h"

namespace condacc {

template <class Sum>
ApplyResult Accumulator<Sum>::Apply(int64_t local_step, Gradient gradient, Workspace& workspace,
                                    std::optional<int64_t> contributor) {
  if (contributor.has_value() && *contributor < 0) {
    const std::string got = std::to_string(*contributor);
    const std::string message = "Argument contributor must not be negative, but was " + got;
    return Error(StatusCode::kInvalidArgument, message.c_str());
  }
  FailedTakes failed;
  {
    MutexLock lock(&mu_);
    const ApplyResult result = Accept(local_step, contributor, workspace, &gradient);
    if (!result.is_added()) return result;
    const RoundPtr round = round_;
    const Appended appended = Append(contributor, std::move(gradient));
    const int64_t ordinal = ++round->num_appended;
    ++round->count;
    if (appended == Appended::kInSum) round->num_added = ordinal;
    ServeFront(workspace, &failed);
    FoldOrWait(round, ordinal, appended == Appended::kMustAddNow, workspace, &failed);
  }
  return ApplyOutcome::kAdded;
}

template <class Sum>
ApplyOutcome Accumulator<Sum>::CheckStepAndContributor(int64_t local_step,
                                                       std::optional<int64_t> contributor) {
  if (step_counter_.DropIfStale(local_step)) return ApplyOutcome::kStale;
  if (!contributor.has_value()) return ApplyOutcome::kAdded;
  if (step_counter_.IsAhead(local_step)) return ApplyOutcome::kAhead;
  return round_->contributors.count(*contributor) > 0 ? ApplyOutcome::kDuplicate
                                                      : ApplyOutcome::kAdded;
}

template <class Sum>
ApplyResult Accumulator<Sum>::Accept(int64_t local_step, std::optional<int64_t> contributor,
                                     Workspace& workspace, Gradient* gradient) {
  while (true) {
    while (round_->phase == Phase::kPreparingTake) added_.Wait(&mu_);
    const ApplyOutcome outcome = CheckStepAndContributor(local_step, contributor);
    if (outcome != ApplyOutcome::kAdded) return outcome;
    Status status = round_->sum.Check(*gradient);
    if (status.ok()) {
      const typename Contract::Missing need = round_->sum.MissingFrom(*gradient);
      if (need == Contract::Missing::kNothing) return outcome;
      MutexUnlock unlock(&mu_);
      status = Sum::Prepare(options_.sum, need, workspace, gradient);
    }
    if (!status.ok()) return Error(status.code(), status.message().c_str());
  }
}

template <class Sum>
Appended Accumulator<Sum>::Append(std::optional<int64_t> contributor, Gradient gradient) {
  if (contributor.has_value()) {
    round_->contributors.emplace(*contributor, round_->num_appended + 1);
  }
  try {
    return round_->sum.Append(std::move(gradient));
  } catch (...) {
    if (contributor.has_value()) round_->contributors.erase(*contributor);
    throw;
  }
}

template <class Sum>
void Accumulator<Sum>::Request(const TakePtr& take, std::shared_ptr<void> keep_alive,
                               Workspace& workspace) {
  FailedTakes failed;
  {
    MutexLock lock(&mu_);
    // If only one gradient is missing, the others are added now, so that they need not be added
    // when it has come. The take is not pushed before that: as soon as it is in the queue, it may
    // be completed at any time, after which its workspace may be gone.
    const RoundPtr round = round_;
    if (takes_.empty() && round->phase == Phase::kOpen &&
        LacksOneGradient(*round, take->num_required)) {
      FoldOnce(round, workspace, &failed);
    }
    ServeFront(workspace, &failed);  // The front take may be waiting for Retry().
    if (ServeOrFailNow(take, workspace, &failed)) {
      // If another thread works on the round, the take is in the queue, with its workspace.
      if (take->waiting) take->keep_alive = std::move(keep_alive);
    } else {
      takes_.Push(take);
      try {
        WatchForStall(take, keep_alive);
      } catch (...) {
        takes_.Remove(take);
        throw;
      }
      take->workspace = &workspace;
      take->keep_alive = std::move(keep_alive);
    }
  }
}

template <class Sum>
bool Accumulator<Sum>::TryServe(const TakePtr& take, Workspace& workspace) {
  FailedTakes failed;
  bool has_ended;
  {
    MutexLock lock(&mu_);
    has_ended = ServeOrFailNow(take, workspace, &failed);
  }
  return has_ended;
}

template <class Sum>
bool Accumulator<Sum>::ServeOrFailNow(const TakePtr& take, Workspace& workspace,
                                      FailedTakes* failed) {
  if (take->num_required < 1) {
    const std::string got = std::to_string(take->num_required);
    const std::string message = "Argument num_required must be positive, but was " + got;
    failed->takes.push_back(take);
    take->failure = Error(StatusCode::kInvalidArgument, message.c_str());
  } else if (take->cancelled) {
    failed->takes.push_back(take);
    take->failure = Error(StatusCode::kCancelled, kCancelled);
  } else if (takes_.empty() && round_->count >= take->num_required && IsAtStepOf(*take)) {
    take->workspace = &workspace;
    take->was_ready = true;
    takes_.Push(take);
    ServeFront(workspace, failed);
  } else {
    return false;
  }
  return true;
}

template <class Sum>
void Accumulator<Sum>::Cancel(const TakePtr& take, Workspace& workspace) {
  FailedTakes ended;
  {
    MutexLock lock(&mu_);
    take->cancelled = true;
    if (!take->waiting) return;
    // While the value of a take is being prepared, perhaps with the take's own workspace, the take
    // is not completed. The thread that prepares the value will see that the take was cancelled.
    if (round_->phase == Phase::kPreparingTake && take == takes_.front()) return;
    Fail(take, Error(StatusCode::kCancelled, kCancelled), &ended);
    ServeFront(workspace, &ended);
  }
}

template <class Sum>
Status Accumulator<Sum>::Error(StatusCode code, const char* message) const noexcept {
  try {
    return Status(code, message + (" (accumulator '" + options_.name + "')"));
  } catch (const std::bad_alloc&) {
    return Status(code, "Out of memory");  // Short enough for std::string not to allocate.
  }
}

template <class Sum>
void Accumulator<Sum>::WatchForStall(const TakePtr& take, std::shared_ptr<void> keep_alive) {
  if (options_.stall_timeout.count() <= 0 || options_.on_stall == nullptr) return;
  take->stall_timer = TimerQueue::Global().Schedule(
      options_.stall_timeout,
      [this, take, keep_alive = std::move(keep_alive)] { ReportStall(take); });
}

template <class Sum>
void Accumulator<Sum>::ReportStall(const TakePtr& take) {
  StallReport report{};
  {
    MutexLock lock(&mu_);
    if (!take->waiting) return;
    report = {round_->count, take->num_required, step_counter_.global_step(),
              step_counter_.num_dropped(), step_counter_.last_dropped_step()};
  }
  options_.on_stall(report);
}

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_IMPL_H_
