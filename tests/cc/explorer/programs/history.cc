#include "tests/cc/explorer/programs/history.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace condacc::explorer {
namespace {

using Kind = Operation::Kind;

// Returns the gradients of states that were restored, which may be taken more than once.
GradientSet RestoredIn(const History& history) {
  GradientSet restored = 0;
  for (const Operation& operation : history.operations) {
    if (operation.kind == Kind::kRestore && operation.has_succeeded()) {
      restored |= operation.saved_gradients;
    }
  }
  return restored;
}

std::string NameOfTake(const History& history, const TakeRecord& take) {
  return "take " + std::to_string(&take - history.takes.data());
}

bool IsAdded(const Operation& operation) {
  return operation.kind == Kind::kApply && !operation.threw && operation.code == StatusCode::kOk &&
         operation.outcome == ApplyOutcome::kAdded;
}

void CheckApplies(const History& history) {
  for (const Operation& apply : history.operations) {
    if (apply.kind != Kind::kApply || apply.threw) continue;
    const bool may_be_added =
        apply.fault == Fault::kNone || (history.refuses_late && apply.fault == Fault::kIndex);
    if (IsAdded(apply) && !may_be_added) Fail("a bad gradient was added:" + ToString(apply));
    if (apply.code == StatusCode::kInvalidArgument && may_be_added) {
      Fail("a good gradient was refused:" + ToString(apply));
    }
  }
}

void CheckCompletions(const History& history) {
  for (const TakeRecord& take : history.takes) {
    const std::string name = NameOfTake(history, take);
    if (take.num_completions > 1) Fail(name + " was completed twice");
    if (take.num_completions > 0 && !take.is_requested) {
      Fail(name + " was completed without a request");
    }
    if (take.is_waiting() && take.is_cancelled) Fail(name + " was cancelled and waits");
    if (take.is_waiting() && take.only_if_ready) Fail(name + " was ready and waits");
    if (take.num_completions > 0 && take.code == StatusCode::kInternal && !history.device_fails) {
      Fail(name + " had an internal error");
    }
  }
}

// Fails if two gradients of the round have the same contributor or, unless the step was set, two
// contributors' steps differ.
void CheckContributors(const History& history, const TakeRecord& take) {
  std::set<int64_t> contributors;
  std::set<int64_t> steps;
  for (const Operation& apply : history.operations) {
    if (!apply.contributor.has_value() || (take.gradients & SetOf(apply.gradient)) == 0) continue;
    steps.insert(apply.step);
    if (contributors.insert(*apply.contributor).second) continue;
    Fail(NameOfTake(history, take) + " has two gradients of a contributor");
  }
  if (steps.size() > 1 && !history.moves_step) {
    Fail(NameOfTake(history, take) + " has contributions of two steps");
  }
}

// Returns whether the gradient of `apply` was certainly taken or lost before `time`. Gradients are
// discarded by resets as well.
bool IsGoneBefore(const History& history, const Operation& apply, Time time) {
  if ((RestoredIn(history) & SetOf(apply.gradient)) != 0) return false;
  for (const Operation& request : history.operations) {
    const bool is_request = request.kind == Kind::kRequest || request.kind == Kind::kRequestIfReady;
    if (!is_request) continue;
    const TakeRecord& take = history.takes[static_cast<size_t>(request.take)];
    if (take.completed >= time) continue;
    if ((take.gradients & SetOf(apply.gradient)) != 0) return true;
    // With a take, all gradients are lost that were there when it was requested.
    if (take.is_lost && apply.returned < request.called) return true;
  }
  return false;
}

// Fails if a gradient was refused as a duplicate although its contributor had none in the round.
void CheckDuplicates(const History& history) {
  for (const Operation& refused : history.operations) {
    const bool is_duplicate = refused.kind == Kind::kApply && !refused.threw &&
                              refused.code == StatusCode::kOk &&
                              refused.outcome == ApplyOutcome::kDuplicate;
    if (!is_duplicate) continue;
    const auto has_one = [&](const Operation& other) {
      return IsAdded(other) && other.contributor == refused.contributor &&
             other.called < refused.returned && !IsGoneBefore(history, other, refused.called);
    };
    if (std::none_of(history.operations.begin(), history.operations.end(), has_one)) {
      Fail("no other gradient of the contributor was there:" + ToString(refused));
    }
  }
}

void CheckGradients(const History& history) {
  const GradientSet restored = RestoredIn(history);
  GradientSet added = 0;
  GradientSet bad = 0;
  int num_lost = 0;
  int64_t num_gone = history.num_accumulated;
  for (const Operation& operation : history.operations) {
    if (IsAdded(operation)) added |= SetOf(operation.gradient);
    if (operation.kind == Kind::kApply && operation.fault != Fault::kNone) {
      bad |= SetOf(operation.gradient);
    }
    if (operation.kind == Kind::kReset) num_gone += operation.result;
    if (operation.kind == Kind::kRestore && operation.has_succeeded()) {
      num_gone -= CountOf(operation.saved_gradients);
    }
  }
  GradientSet taken = 0;
  for (const TakeRecord& take : history.takes) {
    num_lost += take.is_lost ? 1 : 0;
    if (!take.is_served()) continue;
    const std::string name = NameOfTake(history, take);
    if (take.has_wrong_value) Fail(name + " has a wrong value");
    if (CountOf(take.gradients) < take.num_required) Fail(name + " has too few gradients");
    if ((take.gradients & taken & ~restored) != 0) {
      Fail(name + " has a gradient that was taken before");
    }
    if ((take.gradients & ~added) != 0) Fail(name + " has a gradient that was not added");
    if ((take.gradients & bad) != 0) Fail(name + " has a bad gradient");
    taken |= take.gradients;
    CheckContributors(history, take);
  }
  num_gone += CountOf(taken);
  if (num_lost > CountOf(added & bad)) Fail("more takes have failed than bad gradients were added");
  const bool is_exact = !history.device_fails && !history.loses_count;
  if (is_exact ? CountOf(added) != num_gone : CountOf(added) < num_gone) {
    Fail(std::to_string(CountOf(added)) + " gradients were added, but " + std::to_string(num_gone) +
         " were taken, discarded or left");
  }
}

// The order of the waiting takes is not known, so this checks whether the front one, whichever it
// is, should have been served.
void CheckWaitingTakes(const History& history) {
  int64_t most_required = 0;
  for (const TakeRecord& take : history.takes) {
    if (take.is_waiting()) most_required = std::max(most_required, take.num_required);
  }
  if (most_required > 0 && history.num_accumulated >= most_required) {
    Fail("takes of at most " + std::to_string(most_required) + " gradients wait, and there are " +
         std::to_string(history.num_accumulated));
  }
}

// If one take was requested before another, it must not have a gradient that arrived after one of
// the other's.
void CheckOrder(const History& history) {
  const GradientSet restored = RestoredIn(history);
  for (const Operation& first : history.operations) {
    for (const Operation& second : history.operations) {
      if (first.kind != Kind::kRequest || second.kind != Kind::kRequest) continue;
      if (first.returned >= second.called) continue;
      const TakeRecord& first_take = history.takes[static_cast<size_t>(first.take)];
      const TakeRecord& second_take = history.takes[static_cast<size_t>(second.take)];
      if (!first_take.is_served() || !second_take.is_served()) continue;
      Time last_called = -1;
      Time first_returned = kNever;
      for (const Operation& apply : history.operations) {
        if (apply.kind != Kind::kApply) continue;
        const GradientSet gradient = SetOf(apply.gradient) & ~restored;
        if (first_take.gradients & gradient) last_called = std::max(last_called, apply.called);
        if (second_take.gradients & gradient) {
          first_returned = std::min(first_returned, apply.returned);
        }
      }
      if (first_returned < last_called) {
        Fail(NameOfTake(history, second_take) + " was served before an earlier one");
      }
    }
  }
}

std::string NameOf(StatusCode code) {
  constexpr std::pair<StatusCode, const char*> kNames[] = {
      {StatusCode::kInvalidArgument, "invalid argument"},
      {StatusCode::kResourceExhausted, "no memory"},
      {StatusCode::kCancelled, "cancelled"},
      {StatusCode::kFailedPrecondition, "another step"},
      {StatusCode::kOutOfRange, "no further step"},
      {StatusCode::kInternal, "internal error"},
  };
  for (const auto& [known, name] : kNames) {
    if (code == known) return name;
  }
  return "OK";
}

}  // namespace

std::string ToString(const Operation& operation) {
  constexpr const char* kFaults[] = {"", " of a wrong shape", " with a bad index",
                                     " with a bad weight", " with a bad contributor"};
  constexpr const char* kOutcomes[] = {"", "added", "stale", "duplicate", "ahead"};
  constexpr const char* kNames[] = {"apply",  "request", "request if ready",
                                    "cancel", "set to",  "reset to",
                                    "read",   "save",    "restore"};
  std::string text = "  [" + std::to_string(operation.called) + ", " +
                     std::to_string(operation.returned) + "] fiber " +
                     std::to_string(operation.fiber) + ": " +
                     kNames[static_cast<int>(operation.kind)];
  switch (operation.kind) {
    case Kind::kApply:
      text += " gradient " + std::to_string(operation.gradient) + " of step " +
              std::to_string(operation.step);
      if (operation.contributor) text += " by " + std::to_string(*operation.contributor);
      text += kFaults[static_cast<int>(operation.fault)];
      if (operation.returned < 0 && !operation.threw) return text;
      if (operation.threw) return text + ": throws";
      return text + ": " +
             (operation.code == StatusCode::kOk ? kOutcomes[static_cast<int>(operation.outcome)]
                                                : NameOf(operation.code));
    case Kind::kRequestIfReady:
      return text + " take " + std::to_string(operation.take) +
             (operation.was_ready ? ": ready" : ": not ready");
    case Kind::kRequest:
    case Kind::kCancel:
      return text + " take " + std::to_string(operation.take);
    case Kind::kSetStep:
    case Kind::kReset:
      text += " " + std::to_string(operation.step);
      break;
    case Kind::kRead:
      break;
    case Kind::kSave:
    case Kind::kRestore:
      text += " at step " + std::to_string(operation.saved_step) + " with " +
              std::to_string(operation.saved_dropped) + " dropped";
      break;
  }
  if (operation.threw) return text + ": throws";
  if (operation.code != StatusCode::kOk) return text + ": " + NameOf(operation.code);
  return text + ": " + std::to_string(operation.result);
}

namespace {

std::string TextOf(const TakeRecord& take) {
  std::string text = ": requires " + std::to_string(take.num_required);
  if (take.step) text += " at step " + std::to_string(*take.step);
  if (take.num_completions == 0) return text + ", has not ended";
  if (!take.is_served()) return text + ", failed: " + NameOf(take.code);
  text += ", got";
  for (int i = 0; i < kMaxGradients; ++i) {
    if (take.gradients & SetOf(i)) text += " " + std::to_string(i);
  }
  return text;
}

}  // namespace

std::string History::ToString() const {
  std::string text;
  for (const Operation& operation : operations) text += explorer::ToString(operation) + "\n";
  for (const TakeRecord& take : takes) {
    text += "  " + NameOfTake(*this, take) + TextOf(take) + "\n";
  }
  return text + "  left: " + std::to_string(num_accumulated) + " gradients at step " +
         std::to_string(global_step) + ", " + std::to_string(num_dropped) + " dropped\n";
}

void CheckHistory(const History& history) {
  CheckApplies(history);
  CheckDuplicates(history);
  CheckCompletions(history);
  CheckGradients(history);
  CheckWaitingTakes(history);
  CheckOrder(history);
}

}  // namespace condacc::explorer
