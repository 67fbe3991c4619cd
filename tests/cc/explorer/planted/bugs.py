"""Bugs of the core that the explorer of schedules has to find.

Tests with threads seldom show them. Some are found by other C++ tests, too.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """A change of one file that makes the core wrong."""

    breaks: str  # What the bug breaks.
    program: str  # The program whose schedules reveal it.
    file: str  # The file, in cc/core.
    old: str  # The text that is replaced. It occurs in the file exactly once.
    new: str


BUGS = [
    Bug(
        breaks="A restore frees a round first, and then finishes one that another thread took.",
        program="dense",
        file="accumulator/accumulator_state.cc",
        old="  Proceed(restored, &call);\n  if (must_free) Free(discarded);\n",
        new="  if (must_free) Free(discarded);\n  Proceed(restored, &call);\n",
    ),
    Bug(
        breaks="A save copies a sum that another thread folds.",
        program="dense",
        file="accumulator/accumulator_state.cc",
        old="  while (round_->work != Work::kNone) changed_.Wait(&mu_);\n",
        new="",
    ),
    Bug(
        breaks="A take finishes a round while it is saved.",
        program="dense",
        file="accumulator/accumulator_state.cc",
        old="    round->work = Work::kSaving;\n",
        new="",
    ),
    Bug(
        breaks="When a fold got no memory, applies that wait for it are not woken.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="  EndWork(round, call);\n  return has_succeeded;\n",
        new="  if (has_succeeded) EndWork(round, call);\n  round->work = Work::kNone;\n"
        "  Proceed(round, call);\n  return has_succeeded;\n",
    ),
    Bug(
        breaks="A gradient is added while a take is prepared that was not when its apply began.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="  while (true) {\n    while (round_->work == Work::kPreparing) changed_.Wait(&mu_);\n",
        new="  while (round_->work == Work::kPreparing) changed_.Wait(&mu_);\n  while (true) {\n",
    ),
    Bug(
        breaks="A gradient is added while a second take is prepared after a first one.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="    while (round_->work == Work::kPreparing) changed_.Wait(&mu_);\n",
        new="    if (round_->work == Work::kPreparing) changed_.Wait(&mu_);\n",
    ),
    Bug(
        breaks="A call that requests a take folds a round that another thread folds already.",
        program="dense",
        file="accumulator/accumulator.cc",
        old="lacks_one && round->work == Work::kNone &&",
        new="lacks_one &&",
    ),
    Bug(
        breaks="A round is used again while an apply still waits for its gradient in it.",
        program="dense",
        file="accumulator/accumulator.cc",
        old="next_round_ == nullptr || next_round_.use_count() > 1",
        new="next_round_ == nullptr",
    ),
    Bug(
        breaks="A reset waits for one take only, and discards the gradients of the next.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="  while (IsFrontReady()) changed_.Wait(&mu_);\n",
        new="  if (IsFrontReady()) changed_.Wait(&mu_);\n",
    ),
    Bug(
        breaks="A take that has failed is completed while its workspace is in use.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="  call->ended.Add(std::move(take));\n",
        new="  MutexUnlock unlock(&mu_);\n  take->Complete();\n",
    ),
    Bug(
        breaks="A float32 sum is freed while a fold adds to it.",
        program="dense",
        file="dense/dense_sum.cc",
        old="  if (!float32_sum_) float32_sum_ =",
        new="  if (gradient.float32_memory) float32_sum_ =",
    ),
    Bug(
        breaks="If a take is cancelled while its value is prepared, applies are not woken.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="  round.work = Work::kNone;\n  changed_.NotifyAll();\n  Status ended",
        new="  round.work = Work::kNone;\n"
        "  if (!take.is_cancelled) changed_.NotifyAll();\n"
        "  Status ended",
    ),
    Bug(
        breaks="If no thread can be started for a fold, a take that came meanwhile is not served.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="  if (!has_started) EndWork(round, call);\n",
        new="  if (!has_started) round->work = Work::kNone;\n",
    ),
    Bug(
        breaks="Two threads fold one round.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="  round->work = Work::kFolding;\n  bool has_started",
        new="  bool has_started",
    ),
    Bug(
        breaks="A worker that is forgotten while its step is taken over may claim a slot.",
        program="gate",
        file="sync/sync_gate.cc",
        old="    if (step->counted_ && is_open()",
        new="    if (step->at_gate_ && !step->replaced_ && is_open()",
    ),
    Bug(
        breaks="A late call of a replaced session's queue runner takes the gate back.",
        program="gate",
        file="sync/chief_state.h",
        old="    if (WasReplaced(chief)) return false;\n",
        new="",
    ),
    Bug(
        breaks="A chief takes the round that its deputy is taking.",
        program="gate",
        file="sync/sync_gate_waits.cc",
        old="is_open() && is_full() && !holds_chief_ && deputy_round_ != round_;\n",
        new="is_open() && is_full() && !holds_chief_;\n",
    ),
    Bug(
        breaks="A fold forgets that it has found a bad index.",
        program="device",
        file="sparse/device_rows.cc",
        old="    Note(std::move(status));\n  }\n  return true;\n",
        new="  }\n  return true;\n",
    ),
    Bug(
        breaks="A bad index fails every take of its round, which is never discarded.",
        program="device",
        file="sparse/device_rows.cc",
        old="  if (status.code() == StatusCode::kInvalidArgument) {\n",
        new="  if (!failure_.ok()) {\n",
    ),
    Bug(
        breaks="A sum counts its gradients instead of their weights.",
        program="dense",
        file="dense/dense_sum.cc",
        old="  total_weight_ += gradient.weight;\n",
        new="  total_weight_ += 1;\n",
    ),
    Bug(
        breaks="A take forgets the weights of early gradients.",
        program="dense",
        file="dense/dense_sum.cc",
        old="    total_weight_ += gradient->weight;\n",
        new="",
    ),
    Bug(
        breaks="An early gradient is added before those of lower contributors.",
        program="dense",
        file="accumulator/accumulator.h",
        old="*gradient.contributor > round_->num_appended;",
        new="*gradient.contributor > round_->num_appended + 1;",
    ),
    Bug(
        breaks="A borrowed gradient that is early is not copied.",
        program="dense",
        file="dense/dense_sum.cc",
        old="  if (is_early && !gradient.owned) return Missing::kKeptCopy;\n",
        new="",
    ),
    Bug(
        breaks="A save takes gradients for early that only a refusal of memory has kept back.",
        program="sparse",
        file="accumulator/accumulator_state.cc",
        old="    AppendReady();\n",
        new="",
    ),
    Bug(
        breaks="An apply that got no memory leaves its contributor behind.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="    if (contributor.has_value()) contributors.erase(*contributor);\n",
        new="",
    ),
    Bug(
        breaks="A take that names a step is served at another one.",
        program="dense",
        file="accumulator/accumulator.cc",
        old="  if (!IsAtStepOf(take)) {\n",
        new="  if (!step_counter_.CanAdvance() && !IsAtStepOf(take)) {\n",
    ),
    Bug(
        breaks="A take that does not wait ends with an error instead of waiting for its step.",
        program="dense",
        file="accumulator/accumulator.cc",
        old="takes_.empty() && has_enough && IsAtStepOf(*take)",
        new="takes_.empty() && has_enough",
    ),
    Bug(
        breaks="A reset that may only go forward discards the gradients of the present step.",
        program="dense",
        file="accumulator/accumulator.cc",
        old="only_forward && global_step <= step_counter_.global_step()",
        new="only_forward && global_step < step_counter_.global_step()",
    ),
    Bug(
        breaks="An apply returns before its borrowed gradient has been added.",
        program="dense",
        file="accumulator/accumulator.cc",
        old="    if (must_add && round->num_added < number) advice = Advice::kMustFold;\n",
        new="",
    ),
    Bug(
        breaks="A take that came while a folder was started is not served.",
        program="tower",
        file="accumulator/accumulator.cc",
        old="    EndWork(round, &call);\n  }\n}",
        new="    round->work = Work::kNone;\n  }\n}",
    ),
    Bug(
        breaks="An earlier session of a worker may claim a slot.",
        program="gate",
        file="sync/sync_gate.cc",
        old="    step->replaced_ = true;\n",
        new="",
    ),
    Bug(
        breaks="A late step of an earlier session makes a lost worker one that is waited for.",
        program="gate",
        file="sync/sync_gate.cc",
        old="if (!step->replaced_) roster_.See(",
        new="roster_.See(",
    ),
    Bug(
        breaks="A replaced run that waits for an opening ends the waits of its successor.",
        program="gate",
        file="sync/sync_gate_waits.cc",
        old="    if (coming != Roster::Coming::kReplaced) EndSteps(wait.who);\n",
        new="    if (coming != Roster::Coming::kSame || may_replace) EndSteps(wait.who);\n",
    ),
    Bug(
        breaks="A wait of a replaced run is granted.",
        program="gate",
        file="sync/sync_gate_waits.cc",
        old="  return roster_.Add(wait.who, wait.run, NumberOf(wait), 1);\n",
        new="  roster_.Add(wait.who, wait.run, NumberOf(wait), 1);\n  return true;\n",
    ),
    Bug(
        breaks="A replaced run replaces its successor.",
        program="gate",
        file="sync/roster.h",
        old="if (std::find(past.begin(), past.end(), run) != past.end()) return Coming::kReplaced;",
        new="if (past.size() > kMaxPastRuns) return Coming::kReplaced;",
    ),
    Bug(
        breaks="A run goes on waiting although its successor has come.",
        program="gate",
        file="sync/sync_gate.cc",
        old="for (GateWait::List* const list : {&round_waits_, &open_waits_}) {",
        new="for (GateWait::List* const list : {&open_waits_}) {",
    ),
    Bug(
        breaks="The slot of a process that is gone stays held.",
        program="gate",
        file="sync/sync_gate.cc",
        old="    FreeSlot(step);\n    Uncount(step);\n  }\n  ReleaseWaits();",
        new="    Uncount(step);\n  }\n  ReleaseWaits();",
    ),
    Bug(
        breaks="Two deputies take the same round.",
        program="gate",
        file="sync/sync_gate.h",
        old="is_full() && !chief_came_ && deputy_round_ != round_;",
        new="is_full() && !chief_came_;",
    ),
    Bug(
        breaks="A deputy advances the gate although its session was replaced.",
        program="gate",
        file="sync/sync_gate_chief.cc",
        old="round == deputy_round_ && !chief_.WasReplaced(chief.view());",
        new="round == deputy_round_;",
    ),
    Bug(
        breaks="Listed workers that never come are waited for for ever.",
        program="gate",
        file="sync/sync_gate_timing.cc",
        old="std::exchange(num_expected_, 0)",
        new="num_expected_",
    ),
    Bug(
        breaks="A gate that was prepared, opened, closed or dismissed lets waits go on.",
        program="gate",
        file="sync/chief_state.h",
        old="    ++num_changes_;\n",
        new="",
    ),
    Bug(
        breaks="A slot that was freed is not found any more.",
        program="gate",
        file="sync/slots.h",
        old="    none_free_before_ = std::min(none_free_before_, held);\n",
        new="",
    ),
    Bug(
        breaks="A timer that fires late forgets the one that was set meanwhile.",
        program="gate",
        file="sync/sync_gate_timing.cc",
        old="    CancelTimer();\n    const",
        new="    timer_ = TimerQueue::kNoTicket;\n"
        "    timer_deadline_ = Clock::time_point::max();\n    const",
    ),
    Bug(
        breaks="A takeover leaves the slots of silent workers held.",
        program="bundle",
        file="sync/sync_gate_timing.cc",
        old="  slots_.FreeHeld();\n",
        new="",
    ),
    Bug(
        breaks="A step that is pushed at once is complete before all of it was added.",
        program="bundle",
        file="sync/sync_gate.cc",
        old="    if (step->counted_ && is_open() && step->round_ == round_) {",
        new="    if (step->counted_ && is_open()) {",
    ),
    Bug(
        breaks="An update that has ended is counted as if it had made no increment.",
        program="staleness",
        file="staleness/step_reservations.h",
        old="    --num_open_;\n",
        new="    --num_open_;\n    expected_ = SaturatedAdd(expected_, -1);\n",
    ),
    Bug(
        breaks="A decision is made about a step that was read before another decision.",
        program="staleness",
        file="staleness/staleness_gate.h",
        old="return num_changes_.load() == num_changes;",
        new="return true;",
    ),
    Bug(
        breaks="A decision is made about a step that was read before another update ended.",
        program="staleness",
        file="staleness/staleness_gate.h",
        old="    ++num_changes_;\n    reservations_.End();",
        new="    reservations_.End();",
    ),
]
