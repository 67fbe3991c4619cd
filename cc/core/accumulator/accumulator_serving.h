// Definitions of Accumulator's methods that serve takes; included where it is instantiated.
#ifndef CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_SERVING_H_
#define CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_SERVING_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/invariant.h"

namespace condacc {

template <class Sum>
void Accumulator<Sum>::ServeFront(Workspace& workspace, FailedTakes* failed) {
  while (IsReady(round_->count)) {
    // The thread that folds the round or prepares a take calls ServeFront() when it is done.
    if (Sum::kFinishNeedsMemory && round_->phase != Phase::kOpen) return;
    const TakePtr take = takes_.front();
    RoundPtr next;
    Status status = PrepareToServe(*take, &next, workspace);
    if (!status.ok()) {
      const bool is_out_of_memory = status.code() == StatusCode::kResourceExhausted;
      Fail(take, std::move(status), failed);
      // The next take needs the same memory, which would very likely be refused as well.
      if (is_out_of_memory && IsReady(round_->count) && RetryLater()) return;
      continue;
    }
    const RoundPtr round = std::exchange(round_, std::move(next));
    round->take = takes_.PopFront();
    last_num_required_ = round->take->num_required;
    TimerQueue::Global().Cancel(round->take->stall_timer);
    step_counter_.Advance();
    // If the round has a folder, that thread finishes it.
    if (std::exchange(round->phase, Phase::kTaken) == Phase::kOpen) Finish(round, workspace);
    return;
  }
}

template <class Sum>
bool Accumulator<Sum>::RetryLater() {
  if (will_retry_) return true;
  std::shared_ptr<void> keep_alive = takes_.front()->keep_alive;
  if (keep_alive == nullptr) return false;
  try {
    will_retry_ = TimerQueue::Global().Schedule(options_.retry_delay,
                                                [this, keep_alive = std::move(keep_alive)] {
                                                  Retry();
                                                }) != TimerQueue::kNoTicket;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return will_retry_;
}

template <class Sum>
void Accumulator<Sum>::Retry() {
  FailedTakes failed;
  MutexLock lock(&mu_);
  will_retry_ = false;
  // While the value of the front take is being prepared, nobody else completes the take, so its
  // workspace stays valid.
  if (!takes_.empty()) ServeFront(*takes_.front()->workspace, &failed);
}

template <class Sum>
Status Accumulator<Sum>::PrepareToServe(const Take& take, RoundPtr* next, Workspace& workspace) {
  Status status = CheckStep(take);
  if (!status.ok()) return status;
  try {
    *next = NewRound();
  } catch (const std::bad_alloc&) {
    return Error(StatusCode::kResourceExhausted, "Out of memory for another round");
  }
  if constexpr (Sum::kFinishNeedsMemory) {
    const RoundPtr round = round_;
    round->phase = Phase::kPreparingTake;
    {
      MutexUnlock unlock(&mu_);
      try {
        status = Contract::PrepareFinish(round->sum, workspace);
      } catch (const std::bad_alloc&) {
        status = Status(StatusCode::kResourceExhausted, "Out of memory");
      }
    }
    round->phase = Phase::kOpen;
    added_.NotifyAll();
    Status ended = take.cancelled ? Error(StatusCode::kCancelled, kCancelled) : CheckStep(take);
    if (!ended.ok()) {
      // Gradients that were refused stay in the round, so that the next take reports them.
      if (status.ok()) Contract::AbandonFinish(round->sum);
      return ended;
    }
    if (!status.ok()) {
      if (!Contract::Refused(round->sum).empty()) RemoveRefused(round.get());
      return Error(status.code(), status.message().c_str());
    }
  }
  return status;
}

template <class Sum>
void Accumulator<Sum>::RemoveRefused([[maybe_unused]] Round* round) {
  if constexpr (Sum::kFinishNeedsMemory) {
    const std::vector<int64_t>& refused = Contract::Refused(round->sum);
    const auto is_refused = [&](int64_t number) {
      return std::binary_search(refused.begin(), refused.end(), number);
    };
    for (auto i = round->contributors.begin(); i != round->contributors.end();) {
      i = is_refused(i->second) ? round->contributors.erase(i) : std::next(i);
    }
    round->num_added +=
        refused.end() - std::upper_bound(refused.begin(), refused.end(), round->num_added);
    round->count -= static_cast<int64_t>(refused.size());
    CONDACC_INVARIANT(round->num_added <= round->num_appended && round->count >= 0);
    Contract::RemoveRefused(round->sum);
  }
}

template <class Sum>
Status Accumulator<Sum>::CheckStep(const Take& take) const {
  if (!IsAtStepOf(take)) {
    return Error(StatusCode::kFailedPrecondition, "The global step is another than the take's");
  }
  if (step_counter_.CanAdvance()) return Status();
  return Error(StatusCode::kOutOfRange, "The global step is 2**63 - 1 and cannot move on");
}

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_SERVING_H_
