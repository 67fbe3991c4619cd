#include "cc/core/accumulator/accumulator.h"

#include <cmath>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "cc/core/base/invariant.h"
#include "cc/core/base/reached.h"
#include "cc/core/base/timer_queue.h"

namespace condacc {
namespace {

// Returns an error, with a shorter text if there is no memory for this one.
Status Error(StatusCode code, std::string_view message) noexcept {
  try {
    return Status(code, std::string(message));
  } catch (const std::bad_alloc&) {
    return Status(code, "Out of memory");  // Short enough for std::string not to allocate.
  }
}

}  // namespace

// Applies.

ApplyResult Accumulator::Apply(int64_t local_step, Gradient gradient, Workspace& workspace) {
  const std::optional<int64_t> contributor = gradient.contributor;
  Status status = CheckContributor(contributor);
  if (!status.ok()) return status;
  if (!std::isfinite(gradient.weight) || gradient.weight < 0) {
    return Error(StatusCode::kInvalidArgument,
                 "Argument weight must be finite and not negative, but was " +
                     std::to_string(gradient.weight));
  }
  gradient.weight += 0.0;  // Makes a positive zero of a negative one.
  Call call(&mu_, workspace);
  const ApplyResult result = Accept(local_step, workspace, &gradient);
  if (!result.is_added()) {
    if (result.ok()) stalls_.NoteRefused();
    return result;
  }
  const RoundPtr round = round_;
  const bool is_early = IsEarly(gradient);
  const int64_t number = round->num_appended + 1;
  const bool must_add = Append(std::move(gradient));
  stalls_.NoteAdded();
  Proceed(round, &call);
  // An apply does not wait for the gradients of lower contributors.
  if (!is_early) FoldOrWait(round, number, must_add, &call);
  return result;
}

Status Accumulator::CheckContributor(std::optional<int64_t> contributor) const {
  const SumOptions& sum = options_.sum;
  if (!sum.in_order_of_contributors()) {
    if (!contributor.has_value() || *contributor >= 0) return Status();
    return Error(
        StatusCode::kInvalidArgument,
        "Argument contributor must not be negative, but was " + std::to_string(*contributor));
  }
  if (contributor.has_value() && *contributor >= 0 && *contributor < sum.num_contributors) {
    return Status();
  }
  return Error(StatusCode::kInvalidArgument,
               "Gradients are added in the order of contributors 0 to " +
                   std::to_string(sum.num_contributors - 1) + ": expected one of these, got " +
                   (contributor.has_value() ? std::to_string(*contributor) : "no contributor"));
}

ApplyOutcome Accumulator::CheckStepAndContributor(int64_t local_step,
                                                  std::optional<int64_t> contributor) {
  if (step_counter_.DropIfStale(local_step)) return ApplyOutcome::kStale;
  if (!contributor.has_value()) return ApplyOutcome::kAdded;
  if (step_counter_.IsAhead(local_step)) return ApplyOutcome::kAhead;
  const bool is_duplicate = round_->contributors.count(*contributor) > 0;
  return is_duplicate ? ApplyOutcome::kDuplicate : ApplyOutcome::kAdded;
}

ApplyResult Accumulator::Accept(int64_t local_step, Workspace& workspace, Gradient* gradient) {
  while (true) {
    while (round_->work == Work::kPreparing) changed_.Wait(&mu_);
    const ApplyOutcome outcome = CheckStepAndContributor(local_step, gradient->contributor);
    if (outcome != ApplyOutcome::kAdded) return outcome;
    Status status = round_->sum->Check(*gradient, round_->early.first_shape());
    if (status.ok()) {
      const Missing missing = round_->sum->MissingFrom(*gradient, IsEarly(*gradient));
      if (missing == Missing::kNothing) return outcome;
      const RoundPtr round = round_;
      MutexUnlock unlock(&mu_);
      status = round->sum->Supply(missing, workspace, gradient);
    }
    if (!status.ok()) return status;
  }
}

bool Accumulator::Append(Gradient&& gradient) {
  ReserveRound();
  Round::Contributors& contributors = round_->contributors;
  const std::optional<int64_t> contributor = gradient.contributor;
  if (contributor.has_value()) contributors.insert(*contributor);
  Appended appended = Appended::kPending;
  try {
    if (IsEarly(gradient)) {
      round_->sum->MoveMemoryFrom(round_->early.Add(std::move(gradient)));
    } else {
      appended = AppendToSum(std::move(gradient));
    }
  } catch (const std::bad_alloc&) {
    if (contributor.has_value()) contributors.erase(*contributor);
    throw;
  }
  try {
    AppendReady();
  } catch (const std::bad_alloc&) {
    // The next apply or save tries again, and a take adds them like all that are early.
  }
  return appended == Appended::kMustAddNow;
}

Appended Accumulator::AppendToSum(Gradient&& gradient) {
  const Appended appended = round_->sum->Append(std::move(gradient));
  ++round_->num_appended;
  if (appended == Appended::kInSum) round_->num_added = round_->num_appended;
  return appended;
}

void Accumulator::AppendReady() {
  EarlyGradients& early = round_->early;
  while (early.BeginWith(round_->num_appended)) {
    AppendToSum(std::move(*early.first()));
    early.RemoveFirst();
  }
}

void Accumulator::ReserveRound() {
  if (round_->num_accumulated() > 0) return;  // The first gradient has reserved the next round.
  // The previous round is not used again while an apply in FoldOrWait() still refers to it.
  if (next_round_ == nullptr || next_round_.use_count() > 1) {
    next_round_ = std::make_shared<Round>(options_);
  }
  next_round_->place = Place::kOpen;
  next_round_->num_appended = 0;
  next_round_->num_added = 0;
}

// Folds.

void Accumulator::FoldOrWait(const RoundPtr& round, int64_t number, bool must_add, Call* call) {
  bool may_start_folder = options_.start_thread != nullptr;
  while (true) {
    // An apply does not wait for a round that has left, even if too much is pending: the thread
    // that finishes the round adds everything that is pending, and will be done soon.
    const bool is_open = round->place == Place::kOpen;
    Advice advice = is_open ? round->sum->Advise(ExpectTake(*round)) : Advice::kLeave;
    if (must_add && round->num_added < number) advice = Advice::kMustFold;
    if (advice == Advice::kLeave) return;
    if (!is_open || round->work != Work::kNone) {  // Another thread works on the sum.
      if (advice != Advice::kMustFold) return;
      changed_.Wait(&mu_);
    } else if (advice == Advice::kFoldElsewhere && may_start_folder) {
      if (StartFolder(round, call)) return;
      may_start_folder = false;
      continue;
    } else if (!Fold(round, call)) {
      return;
    }
    if (round->num_added >= number) return;
  }
}

RoundSum::NextTake Accumulator::ExpectTake(const Round& round) const {
  const bool is_waiting = !takes_.empty();
  const int64_t num_required = is_waiting ? takes_.front()->num_required : last_num_required_;
  const int64_t num_missing = num_required - round.num_accumulated();
  const bool is_known = is_waiting || num_missing >= 0;
  return {is_known ? num_missing : RoundSum::kUnknown, is_waiting, last_result_bytes_};
}

bool Accumulator::Fold(const RoundPtr& round, Call* call) {
  round->work = Work::kFolding;
  const int64_t num_folded = round->sum->BeginFold();
  {
    MutexUnlock unlock(&mu_);
    round->sum->RunFold(call->workspace);
  }
  const bool has_succeeded = round->sum->EndFold();
  if (has_succeeded) round->num_added += num_folded;
  EndWork(round, call);
  return has_succeeded;
}

void Accumulator::EndWork(const RoundPtr& round, Call* call) {
  round->work = Work::kNone;
  changed_.NotifyAll();
  Proceed(round, call);
}

bool Accumulator::StartFolder(const RoundPtr& round, Call* call) {
  round->work = Work::kFolding;
  bool has_started = false;
  {
    MutexUnlock unlock(&mu_);
    try {
      has_started = options_.start_thread(
          [this, round](Workspace& workspace) { RunFolder(round, workspace); });
    } catch (const std::bad_alloc&) {
      // This call folds instead.
    }
  }
  if (!has_started) EndWork(round, call);
  return has_started;
}

void Accumulator::RunFolder(const RoundPtr& round, Workspace& workspace) {
  Call call(&mu_, workspace);
  if (round->place == Place::kOpen && !IsFrontReady()) {
    Fold(round, &call);
  } else {
    // Before the fold began, the round was discarded or a take came, which adds what is pending.
    EndWork(round, &call);
  }
}

// Takes.

void Accumulator::Request(const TakePtr& take, std::shared_ptr<void> keep_alive,
                          Workspace& workspace) {
  Call call(&mu_, workspace);
  // If only one gradient is missing, the others are added now instead of when it arrives. The take
  // is queued only afterwards: once queued, it may be completed at any time, and its workspace may
  // then be gone.
  const RoundPtr round = round_;
  const bool lacks_one = round->num_accumulated() + 1 == take->num_required && takes_.empty();
  if (lacks_one && round->work == Work::kNone &&
      round->sum->Advise({/*num_missing=*/1, /*is_waiting=*/true}) != Advice::kLeave) {
    Fold(round, &call);
  }
  Status error = CheckTake(*take);
  if (!error.ok()) return Fail(take.get(), std::move(error), &call);
  if (stalls_.is_enabled()) take->began = StallWatch::Clock::now();
  if (!takes_.empty() || !HasEnoughFor(*take)) WatchForStall(take, keep_alive);
  Enqueue(take, std::move(keep_alive), &call);
}

bool Accumulator::TryServe(const TakePtr& take, Workspace& workspace) {
  StallReport report{};
  {
    Call call(&mu_, workspace);
    Status error = CheckTake(*take);
    if (!error.ok()) {
      Fail(take.get(), std::move(error), &call);
      return true;
    }
    const bool has_enough = HasEnoughFor(*take);
    if (takes_.empty() && has_enough && IsAtStepOf(*take)) {
      Enqueue(take, nullptr, &call);
      return true;
    }
    if (!takes_.empty() || has_enough || !stalls_.IsTryDue()) return false;
    report = DescribeStall(*take, std::nullopt);
  }
  options_.on_stall(report);
  return false;
}

void Accumulator::Cancel(const TakePtr& take, Workspace& workspace) {
  Call call(&mu_, workspace);
  take->is_cancelled = true;
  if (!take->is_waiting()) return;
  // While the value of a take is being prepared, perhaps with the take's own workspace, the take
  // must not be completed. The preparing thread will see that it was cancelled.
  const RoundPtr round = round_;
  const bool is_front = take == takes_.front();
  if (round->work == Work::kPreparing && is_front) return;
  if (is_front) stalls_.NoteCancelled(take->began);
  Fail(take.get(), CheckTake(*take), &call);
  changed_.NotifyAll();  // A reset need not wait for this take any more.
  Proceed(round, &call);
}

Status Accumulator::CheckTake(const Take& take) const {
  if (take.num_required < 1) {
    return Error(StatusCode::kInvalidArgument, "Argument num_required must be positive, but was " +
                                                   std::to_string(take.num_required));
  }
  const SumOptions& sum = options_.sum;
  if (sum.in_order_of_contributors() && take.num_required > sum.num_contributors) {
    return Error(StatusCode::kInvalidArgument,
                 "Argument num_required must not be higher than the number of contributors, " +
                     std::to_string(sum.num_contributors) + ", but was " +
                     std::to_string(take.num_required));
  }
  if (take.is_cancelled) return Error(StatusCode::kCancelled, "TakeGrad operation was cancelled");
  return Status();
}

Status Accumulator::CheckStep(const Take& take) const {
  if (!IsAtStepOf(take)) {
    return Error(StatusCode::kFailedPrecondition, "The global step is another than the take's");
  }
  if (step_counter_.CanAdvance()) return Status();
  return Error(StatusCode::kOutOfRange, "The global step is 2**63 - 1 and cannot move on");
}

void Accumulator::Enqueue(const TakePtr& take, std::shared_ptr<void> keep_alive, Call* call) {
  take->keep_alive = std::move(keep_alive);
  take->BeginWait(&takes_);
  const RoundPtr round = round_;
  Proceed(round, call);
}

void Accumulator::Fail(Take* take, Status status, Call* call) {
  TimerQueue::Global().Cancel(take->stall_timer);
  take->failure = std::move(status);
  take->EndWait(&call->ended);
}

void Accumulator::WatchForStall(const TakePtr& take, const std::shared_ptr<void>& keep_alive) {
  if (!stalls_.is_enabled()) return;
  // A take behind others may become the first one at any time, so it is checked again each time
  // that the timeout has passed.
  const bool is_first = takes_.empty() || takes_.front() == take;
  take->stall_timer =
      TimerQueue::Global().Schedule(is_first ? stalls_.DueIn(take->began) : options_.stall_timeout,
                                    [this, take, keep_alive] { ReportStall(take, keep_alive); });
}

void Accumulator::ReportStall(const TakePtr& take, const std::shared_ptr<void>& keep_alive) {
  StallReport report{};
  {
    MutexLock lock(&mu_);
    if (!take->is_waiting()) return;
    // All takes wait for the front one, so the report is about that one.
    const Take& front = *takes_.front();
    const bool is_due = stalls_.IsTakeDue(front.began);
    if (is_due) report = DescribeStall(front, front.began);
    WatchForStall(take, keep_alive);
    if (!is_due) return;
  }
  options_.on_stall(report);
}

StallReport Accumulator::DescribeStall(const Take& take,
                                       std::optional<StallWatch::Clock::time_point> began) const {
  StallReport report{};
  report.num_accumulated = round_->num_accumulated();
  report.num_required = take.num_required;
  report.num_takes_behind = takes_.empty() ? 0 : static_cast<int64_t>(takes_.size()) - 1;
  report.global_step = step_counter_.global_step();
  report.num_dropped = step_counter_.num_dropped();
  report.last_dropped_step = step_counter_.last_dropped_step();
  stalls_.Describe(began, &report);
  return report;
}

// Rounds.

Accumulator::Action Accumulator::NextAction(const Round& round) const {
  const bool is_idle = round.work == Work::kNone;
  CONDACC_REACHED("NextAction", static_cast<int>(round.place), static_cast<int>(round.work),
                  round.place == Place::kOpen && IsFrontReady());
  switch (round.place) {
    case Place::kOpen:
      return IsFrontReady() && (is_idle || !round.sum->needs_preparation()) ? Action::kServe
                                                                            : Action::kNone;
    case Place::kTaken:
      return is_idle ? Action::kFinish : Action::kNone;
    case Place::kDiscarded:
      return is_idle ? Action::kFree : Action::kNone;
    case Place::kGone:
      break;
  }
  return Action::kNone;
}

void Accumulator::Proceed(const RoundPtr& round, Call* call) {
  while (true) {
    switch (NextAction(*round)) {
      case Action::kServe:
        Serve(call);
        break;
      case Action::kFinish:
        return Finish(round, call->workspace);
      case Action::kFree:
        return Free(round);
      case Action::kNone:
        return;
    }
  }
}

void Accumulator::Serve(Call* call) {
  Take* const take = takes_.front().get();
  Status status = CheckStep(*take);
  if (status.ok()) status = PrepareTake(*take, call->workspace);
  if (!status.ok()) return Fail(take, std::move(status), call);
  TimerQueue::Global().Cancel(take->stall_timer);
  stalls_.NoteServed();
  last_num_required_ = take->num_required;
  last_result_bytes_ = NumBytes(options_.sum.type, round_->sum->value_shape());
  step_counter_.Advance();
  round_->place = Place::kTaken;
  round_->take = take->Leave();
  round_ = std::move(next_round_);
}

Status Accumulator::PrepareTake(const Take& take, Workspace& workspace) {
  Round& round = *round_;  // It stays the open round: nothing takes or discards it meanwhile.
  if (!round.sum->needs_preparation()) return AllocateFor(take, &round, workspace);
  round.work = Work::kPreparing;
  Status status;
  {
    MutexUnlock unlock(&mu_);
    status = AllocateFor(take, &round, workspace);
  }
  round.work = Work::kNone;
  changed_.NotifyAll();
  Status ended = take.is_cancelled ? CheckTake(take) : CheckStep(take);
  if (!ended.ok()) {
    if (status.ok()) round.sum->AbandonFinish();
    return ended;
  }
  return status;
}

Status Accumulator::AllocateFor(const Take& take, Round* round, Workspace& workspace) noexcept {
  RoundSum* const sum = round->sum.get();
  Status status;
  bool is_prepared = false;
  // This thread may be running another operation, such as an apply that has succeeded, so an
  // exception becomes the error of the take.
  try {
    status = sum->PrepareFinish(round->early.InOrder(), workspace);
    is_prepared = status.ok();
    if (is_prepared && take.reserve != nullptr) status = take.reserve(sum->value_shape());
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted, "Out of memory");
  }
  if (is_prepared && !status.ok()) sum->AbandonFinish();
  return status;
}

void Accumulator::Finish(const RoundPtr& round, Workspace& workspace) {
  {
    MutexUnlock unlock(&mu_);
    Value value = round->sum->Finish(workspace);
    TakePtr take;
    {
      MutexLock lock(&mu_);
      round->num_added = round->num_appended;
      changed_.NotifyAll();  // Applies of borrowed gradients can return.
      take = std::move(round->take);
    }
    take->Complete(value.failure, value.failure.ok() ? &value : nullptr);
    // The memory is freed only now, so that the take does not wait for that.
    round->sum->Clear();
    round->early.Clear();
    Round::Contributors().swap(round->contributors);
  }
  Retire(round);
}

void Accumulator::Free(const RoundPtr& round) {
  {
    MutexUnlock unlock(&mu_);
    round->sum->Clear();
    round->early.Clear();
    Round::Contributors().swap(round->contributors);
  }
  Retire(round);
}

void Accumulator::Retire(const RoundPtr& round) {
  round->num_added = round->num_appended;
  round->place = Place::kGone;
  changed_.NotifyAll();
  if (next_round_ == nullptr) next_round_ = round;
}

int64_t Accumulator::Reset(int64_t global_step, bool only_forward) {
  MutexLock lock(&mu_);
  // If a take has enough gradients, the thread that works on the round will serve it.
  while (IsFrontReady()) changed_.Wait(&mu_);
  if (only_forward && global_step <= step_counter_.global_step()) return 0;
  step_counter_.Set(global_step);
  const RoundPtr round = round_;
  const int64_t num_discarded = round->num_accumulated();
  if (num_discarded == 0) return 0;
  round_ = std::move(next_round_);
  round->place = Place::kDiscarded;
  changed_.NotifyAll();  // Applies that wait only because too much is pending can return.
  // Otherwise, the thread that works on it frees it.
  if (NextAction(*round) == Action::kFree) Free(round);
  return num_discarded;
}

}  // namespace condacc
