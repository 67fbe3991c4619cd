// Definitions of Accumulator's methods that work on rounds; included where it is instantiated.
#ifndef CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_ROUNDS_H_
#define CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_ROUNDS_H_

#include <memory>
#include <utility>

#include "cc/core/accumulator/accumulator.h"

namespace condacc {

template <class Sum>
typename Accumulator<Sum>::RoundPtr Accumulator<Sum>::NewRound() {
  // The spare round is not used again while an apply in FoldOrWait() still refers to it.
  if (spare_round_ == nullptr || spare_round_.use_count() > 1) {
    return std::make_shared<Round>(options_.sum);
  }
  spare_round_->phase = Phase::kOpen;
  spare_round_->count = 0;
  spare_round_->num_appended = 0;
  spare_round_->num_added = 0;
  return std::move(spare_round_);
}

template <class Sum>
void Accumulator<Sum>::FoldOrWait(const RoundPtr& round, int64_t ordinal, bool is_urgent,
                                  Workspace& workspace, FailedTakes* failed) {
  while (round->num_added < ordinal) {
    // A taken round need not be waited for because it is overfull: the thread that finishes it adds
    // all that is pending, and will be done soon.
    const bool is_taken = round->phase >= Phase::kTaken;
    const bool must = is_urgent || (!is_taken && round->sum.IsOverfull());
    if (round->phase == Phase::kOpen && (must || IsWorthFolding(*round))) {
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
  return LacksOneGradient(round, num_required) || round.sum.WantsFold(round.count == num_required);
}

template <class Sum>
bool Accumulator<Sum>::LacksOneGradient(const Round& round, int64_t num_required) const {
  return round.count + 1 == num_required && round.sum.WantsFoldAhead();
}

template <class Sum>
bool Accumulator<Sum>::FoldOnce(const RoundPtr& round, Workspace& workspace, FailedTakes* failed) {
  round->phase = Phase::kFolding;
  const int64_t num_folded = round->sum.BeginFold();
  {
    MutexUnlock unlock(&mu_);
    round->sum.RunFold(workspace);
  }
  const bool succeeded = round->sum.EndFold();
  if (succeeded) round->num_added += num_folded;
  if (round->phase == Phase::kFolding) round->phase = Phase::kOpen;
  added_.NotifyAll();
  if (round->phase == Phase::kDiscarded) {
    Discard(round);
  } else if (round->phase == Phase::kTaken) {
    Finish(round, workspace);
  } else if (Sum::kFinishNeedsMemory && !will_retry_) {
    ServeFront(workspace, failed);  // A take may have become ready meanwhile.
  }
  return succeeded;
}

template <class Sum>
void Accumulator<Sum>::Finish(const RoundPtr& round, Workspace& workspace) {
  MutexUnlock unlock(&mu_);
  Value value = round->sum.Finish(workspace);
  TakePtr take;
  {
    MutexLock lock(&mu_);
    round->num_added = round->num_appended;
    round->phase = Phase::kFinished;
    take = std::move(round->take);
  }
  added_.NotifyAll();
  const Status& failure = value.failure;
  if (failure.ok()) {
    take->Complete(Status(), &value);
  } else {
    take->Complete(Error(failure.code(), failure.message().c_str()), nullptr);
  }
  // The memory is freed after the take was completed, which need not wait for that.
  round->sum.Clear();
  round->contributors.clear();
  MutexLock lock(&mu_);
  spare_round_ = round;
}

template <class Sum>
int64_t Accumulator<Sum>::Reset(int64_t global_step, bool only_forward) {
  FailedTakes failed;
  int64_t num_discarded;
  {
    MutexLock lock(&mu_);
    AwaitReadyTakes(&failed);
    if (only_forward && global_step <= step_counter_.global_step()) return 0;
    const RoundPtr round = round_;
    num_discarded = round->count;
    if (num_discarded > 0) round_ = NewRound();
    step_counter_.Set(global_step);
    if (num_discarded > 0) {
      const Phase phase = std::exchange(round->phase, Phase::kDiscarded);
      added_.NotifyAll();  // Applies that wait only because too much is pending may return.
      // If the round has a folder, that thread frees it.
      if (phase == Phase::kOpen) Discard(round);
    }
  }
  return num_discarded;
}

template <class Sum>
void Accumulator<Sum>::AwaitReadyTakes(FailedTakes* failed) {
  while (true) {
    const bool is_ready = IsReady(round_->count);
    if (round_->phase == Phase::kPreparingTake || (is_ready && round_->phase == Phase::kFolding)) {
      added_.Wait(&mu_);  // The thread that folds the round or prepares a take serves it.
    } else if (is_ready && takes_.front()->was_ready) {
      // The take was requested when there were enough gradients, but nobody has served it, because
      // a retry after refused memory is scheduled.
      ServeFront(*takes_.front()->workspace, failed);
    } else {
      return;
    }
  }
}

template <class Sum>
void Accumulator<Sum>::Discard(const RoundPtr& round) {
  {
    MutexUnlock unlock(&mu_);
    round->sum.Clear();
    round->contributors.clear();
  }
  round->num_added = round->num_appended;
  round->phase = Phase::kFinished;
  added_.NotifyAll();
  spare_round_ = round;
}

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_ROUNDS_H_
