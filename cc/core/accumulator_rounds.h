// Definitions of Accumulator's methods that work on rounds; included by accumulator.h only.
#ifndef CONDACC_CORE_ACCUMULATOR_ROUNDS_H_
#define CONDACC_CORE_ACCUMULATOR_ROUNDS_H_

#include <memory>
#include <new>
#include <utility>

#include "cc/core/accumulator.h"

namespace condacc {

template <class Sum>
typename Accumulator<Sum>::RoundPtr Accumulator<Sum>::NewRound() {
  // A round is not used again while an apply still watches it.
  if (spare_round_ == nullptr || spare_round_.use_count() > 1) {
    return std::make_shared<Round>(options_.sum);
  }
  spare_round_->count = 0;
  spare_round_->num_added = 0;
  spare_round_->has_worker = false;
  spare_round_->is_taken = false;
  spare_round_->is_closing = false;
  return std::move(spare_round_);
}

template <class Sum>
void Accumulator<Sum>::ServeFront(Workspace& workspace, Completions* failed) {
  while (IsReady(round_->count)) {
    // Who works on a sum that must be closed first will come here afterwards.
    if (Sum::kFinishNeedsMemory && round_->has_worker) return;
    const TakePtr take = takes_.front();
    RoundPtr next;
    Status status = PrepareToServe(*take, &next, workspace);
    if (!status.ok()) {
      const bool is_out_of_memory = status.code() == StatusCode::kResourceExhausted;
      Fail(take, std::move(status), failed);
      // The next take would be refused as much memory a moment later.
      if (is_out_of_memory && IsReady(round_->count) && RetryLater()) return;
      continue;
    }
    const RoundPtr round = std::exchange(round_, std::move(next));
    round->take = takes_.PopFront();
    round->is_taken = true;
    last_num_required_ = round->take->num_required;
    StallMonitor::Global().Unwatch(round->take->stall_watch);
    gate_.Advance();
    if (!round->has_worker) Finish(round, workspace);  // else the worker does
    return;
  }
}

template <class Sum>
bool Accumulator<Sum>::RetryLater() {
  if (will_retry_) return true;
  std::shared_ptr<void> keep_alive = takes_.front()->keep_alive;
  if (keep_alive == nullptr) return false;
  try {
    StallMonitor::Global().Watch(kRetryDelay,
                                 [this, keep_alive = std::move(keep_alive)] { Retry(); });
  } catch (const std::bad_alloc&) {
    return false;
  }
  will_retry_ = true;
  return true;
}

template <class Sum>
void Accumulator<Sum>::Retry() {
  Completions failed;
  {
    MutexLock lock(&mu_);
    will_retry_ = false;
    // A take does not end while it is prepared, so that its workspace is good for that.
    if (!takes_.empty()) ServeFront(*takes_.front()->workspace, &failed);
  }
  Complete(failed);
}

// Makes all that can fail of serving the front take, which stays the front take.
template <class Sum>
Status Accumulator<Sum>::PrepareToServe(const Take& take, RoundPtr* next, Workspace& workspace) {
  Status status = CheckStep();
  if (!status.ok()) return status;
  try {
    *next = NewRound();
  } catch (const std::bad_alloc&) {
    return Error(StatusCode::kResourceExhausted, "Out of memory for another round");
  }
  if constexpr (Sum::kFinishNeedsMemory) {
    const RoundPtr round = round_;
    round->has_worker = true;
    round->is_closing = true;
    {
      MutexUnlock unlock(&mu_);
      try {
        status = round->sum.PrepareFinish(round->count, workspace);
      } catch (const std::bad_alloc&) {
        status = Status(StatusCode::kResourceExhausted, "Out of memory");
      }
    }
    round->has_worker = false;
    round->is_closing = false;
    added_.NotifyAll();
    if (!status.ok()) return Error(status.code(), status.message().c_str());
    status = take.cancelled ? Error(StatusCode::kCancelled, kCancelled) : CheckStep();
    if (!status.ok()) round->sum.AbandonFinish();
  }
  return status;
}

template <class Sum>
Status Accumulator<Sum>::CheckStep() const {
  if (gate_.CanAdvance()) return Status();
  return Error(StatusCode::kOutOfRange, "The global step is 2**63 - 1 and cannot move on");
}

// Lets the call that brought the round's gradient number `ordinal` do its share of the adding.
// If it `must_add`, that gradient is added before the call returns.
template <class Sum>
void Accumulator<Sum>::Settle(const RoundPtr& round, int64_t ordinal, bool must_add,
                              Workspace& workspace, Completions* failed) {
  while (round->num_added < ordinal) {
    // The sum of a taken round belongs to its worker, who will be done soon.
    const bool must = must_add || (!round->is_taken && round->sum.IsOverfull());
    const bool may_fold = !round->is_taken && !round->has_worker;
    if (may_fold && (must || IsWorthFolding(*round))) {
      if (!FoldOnce(round, workspace, failed)) return;
    } else if (must) {
      added_.Wait(&mu_);
    } else {
      return;
    }
  }
}

template <class Sum>
bool Accumulator<Sum>::IsWorthFolding(const Round& round) const {
  if (takes_.empty()) return round.sum.WantsFold(round.count == last_num_required_);
  const int64_t num_required = takes_.front()->num_required;
  return IsOneShort(round, num_required) || round.sum.WantsFold(round.count == num_required);
}

// The last gradient of a waiting take should find nothing left to do but itself.
template <class Sum>
bool Accumulator<Sum>::IsOneShort(const Round& round, int64_t num_required) const {
  return round.count + 1 == num_required && round.sum.IsBig() && round.sum.num_pending() > 0 &&
         round.sum.CanFold();
}

template <class Sum>
bool Accumulator<Sum>::FoldOnce(const RoundPtr& round, Workspace& workspace, Completions* failed) {
  round->has_worker = true;
  const int64_t num_folded = round->sum.BeginFold();
  bool succeeded;
  {
    MutexUnlock unlock(&mu_);
    succeeded = round->sum.RunFold(workspace);
  }
  round->sum.EndFold(succeeded);
  if (succeeded) round->num_added += num_folded;
  round->has_worker = false;
  added_.NotifyAll();
  if (round->is_taken) {
    Finish(round, workspace);
  } else if (Sum::kFinishNeedsMemory) {
    ServeFront(workspace, failed);
  }
  return succeeded;
}

// Of a taken round without a worker. It keeps this one for good.
template <class Sum>
void Accumulator<Sum>::Finish(const RoundPtr& round, Workspace& workspace) {
  round->has_worker = true;
  MutexUnlock unlock(&mu_);
  Value value = round->sum.Finish(round->count, workspace);
  TakePtr take;
  {
    MutexLock lock(&mu_);
    round->num_added = round->count;
    take = std::move(round->take);
  }
  added_.NotifyAll();
  const Status& failure = value.failure;
  if (failure.ok()) {
    take->Complete(Status(), &value);
  } else {
    take->Complete(Error(failure.code(), failure.message().c_str()), nullptr);
  }
  round->sum.Clear();  // now: who waits for the value need not wait for memory to be given back
  MutexLock lock(&mu_);
  spare_round_ = round;
}

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_ROUNDS_H_
