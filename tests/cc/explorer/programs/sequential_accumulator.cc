#include "tests/cc/explorer/programs/sequential_accumulator.h"

#include <algorithm>
#include <limits>

namespace condacc::explorer {
namespace {

using Kind = Operation::Kind;

constexpr int64_t kMaxStep = std::numeric_limits<int64_t>::max();

class Search {
 public:
  explicit Search(const History& history)
      : history_(history), is_done_(history.operations.size()) {}

  Linearization Run() {
    const bool found = Extend(SequentialAccumulator(history_), history_.operations.size());
    if (found) return Linearization::kFound;
    return num_visited_ > kMaxVisited ? Linearization::kGivenUp : Linearization::kNone;
  }

 private:
  static constexpr int64_t kMaxVisited = 2000000;

  // Returns whether the operations that are not done can follow in some order.
  bool Extend(const SequentialAccumulator& accumulator, size_t num_left) {
    if (num_left == 0) return accumulator.HasEndedAlike();
    if (++num_visited_ > kMaxVisited) return false;
    Time first_returned = kNever;
    for (size_t i = 0; i < is_done_.size(); ++i) {
      if (!is_done_[i]) first_returned = std::min(first_returned, history_.operations[i].returned);
    }
    for (size_t i = 0; i < is_done_.size(); ++i) {
      if (is_done_[i] || history_.operations[i].called > first_returned) continue;
      SequentialAccumulator next = accumulator;
      if (!next.Do(history_.operations[i])) continue;
      is_done_[i] = true;
      if (Extend(next, num_left - 1)) return true;
      is_done_[i] = false;
    }
    return false;
  }

  const History& history_;
  std::vector<bool> is_done_;
  int64_t num_visited_ = 0;
};

}  // namespace

Linearization FindLinearization(const History& history) { return Search(history).Run(); }

bool SequentialAccumulator::Do(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kApply:
      return Apply(operation);
    case Kind::kRequest:
    case Kind::kRequestIfReady:
      return Request(operation);
    case Kind::kCancel:
      return Cancel(operation);
    case Kind::kSetStep:
      return std::exchange(global_step_, operation.step) == operation.result;
    case Kind::kReset:
      if (operation.only_forward && operation.step <= global_step_) return operation.result == 0;
      global_step_ = operation.step;
      contributors_.clear();
      return CountOf(std::exchange(gradients_, 0)) == operation.result;
    case Kind::kRead:
      return Read(operation.number) == operation.result;
    case Kind::kSave:
      if (!operation.has_succeeded()) return true;
      return CountOf(gradients_) == operation.result && global_step_ == operation.saved_step &&
             num_dropped_ == operation.saved_dropped &&
             contributors_ == operation.saved_contributors &&
             gradients_ == operation.saved_gradients;
    case Kind::kRestore:
      if (!operation.has_succeeded()) return true;
      global_step_ = operation.saved_step;
      num_dropped_ = operation.saved_dropped;
      gradients_ = operation.saved_gradients;
      contributors_ = operation.saved_contributors;
      Serve();
      return true;
  }
  return false;
}

int64_t SequentialAccumulator::Read(Operation::Number number) const {
  switch (number) {
    case Operation::Number::kAccumulated:
      return CountOf(gradients_);
    case Operation::Number::kGlobalStep:
      return global_step_;
    case Operation::Number::kDropped:
      break;
  }
  return num_dropped_;
}

ApplyOutcome SequentialAccumulator::OutcomeOf(const Operation& apply) const {
  if (apply.step < global_step_) return ApplyOutcome::kStale;
  if (!apply.contributor.has_value()) return ApplyOutcome::kAdded;
  if (apply.step > global_step_) return ApplyOutcome::kAhead;
  return contributors_.count(*apply.contributor) > 0 ? ApplyOutcome::kDuplicate
                                                     : ApplyOutcome::kAdded;
}

bool SequentialAccumulator::Apply(const Operation& apply) {
  if (apply.threw) return true;
  const bool is_invalid = apply.code == StatusCode::kInvalidArgument;
  if (apply.fault == Fault::kWeight || apply.fault == Fault::kContributor) return is_invalid;
  const ApplyOutcome outcome = OutcomeOf(apply);
  // Shapes are compared, and memory is requested, only if the gradient may be added.
  if (outcome == ApplyOutcome::kAdded && is_invalid != (apply.fault == Fault::kShape)) return false;
  if (apply.code != StatusCode::kOk) return outcome == ApplyOutcome::kAdded;
  if (outcome == ApplyOutcome::kStale) ++num_dropped_;
  if (outcome == ApplyOutcome::kAdded) {
    gradients_ |= SetOf(apply.gradient);
    if (apply.contributor.has_value()) contributors_.insert(*apply.contributor);
    Serve();
  }
  return outcome == apply.outcome;
}

bool SequentialAccumulator::IsReady(const TakeRecord& take) const {
  return waiting_.empty() && CountOf(gradients_) >= take.num_required &&
         take.step.value_or(global_step_) == global_step_;
}

bool SequentialAccumulator::Request(const Operation& request) {
  if (request.threw) return true;
  const TakeRecord& wanted = take(request.take);
  End& its_end = end(request.take);
  const int64_t most = history_->num_contributors == 0 ? kMaxGradients : history_->num_contributors;
  const bool is_valid = wanted.num_required >= 1 && wanted.num_required <= most;
  const bool must_wait = is_valid && !its_end.is_cancelled && !IsReady(wanted);
  if (request.kind == Kind::kRequestIfReady) {
    if (request.was_ready == must_wait) return false;
    if (must_wait) return true;
  }
  if (!is_valid) {
    FailTake(&its_end, StatusCode::kInvalidArgument);
  } else if (its_end.is_cancelled) {
    FailTake(&its_end, StatusCode::kCancelled);
  } else {
    its_end.state = End::State::kWaiting;
    waiting_.push_back(request.take);
    Serve();
  }
  return true;
}

bool SequentialAccumulator::Cancel(const Operation& cancel) {
  End& its_end = end(cancel.take);
  its_end.is_cancelled = true;
  if (its_end.state != End::State::kWaiting) return true;
  FailTake(&its_end, StatusCode::kCancelled);
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), cancel.take));
  Serve();
  return true;
}

void SequentialAccumulator::Serve() {
  while (!waiting_.empty() && CountOf(gradients_) >= take(waiting_.front()).num_required) {
    const TakeRecord& front = take(waiting_.front());
    End& its_end = end(waiting_.front());
    waiting_.erase(waiting_.begin());
    if (front.step.value_or(global_step_) != global_step_) {
      FailTake(&its_end, StatusCode::kFailedPrecondition);
    } else if (global_step_ == kMaxStep) {
      FailTake(&its_end, StatusCode::kOutOfRange);
    } else if (front.is_refused_memory ||
               (history_->takes_need_memory && front.code == StatusCode::kResourceExhausted)) {
      FailTake(&its_end, StatusCode::kResourceExhausted);
    } else {
      its_end.state = End::State::kServed;
      its_end.gradients = std::exchange(gradients_, 0);
      contributors_.clear();
      ++global_step_;
    }
  }
}

void SequentialAccumulator::FailTake(End* end, StatusCode code) {
  end->state = End::State::kFailed;
  end->code = code;
}

bool SequentialAccumulator::HasEndedAlike() const {
  if (CountOf(gradients_) != history_->num_accumulated || global_step_ != history_->global_step ||
      num_dropped_ != history_->num_dropped) {
    return false;
  }
  for (size_t i = 0; i < ends_.size(); ++i) {
    const TakeRecord& record = history_->takes[i];
    const End& end = ends_[i];
    const bool has_ended = end.state == End::State::kServed || end.state == End::State::kFailed;
    if (has_ended != (record.num_completions > 0)) return false;
    if (has_ended && (end.code != record.code || end.gradients != record.gradients)) return false;
  }
  return true;
}

}  // namespace condacc::explorer
