"""Bugs of the core that the explorer of schedules has to find.

Tests with threads seldom show them, and no operator of tests/cc/mutants makes them.
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
        breaks="A take that has failed is completed while its workspace is in use.",
        program="sparse",
        file="accumulator/accumulator.cc",
        old="  take->EndWait(&call->ended);\n",
        new="  const TakePtr ended = take->shared_from_this();\n"
        "  if (take->is_waiting()) take->Leave();\n"
        "  MutexUnlock unlock(&mu_);\n"
        "  ended->Complete();\n",
    ),
    Bug(
        breaks="A float32 sum is freed while a fold adds to it.",
        program="dense",
        file="dense/dense_sum.cc",
        old="  if (!float32_sum_) float32_sum_ =",
        new="  if (gradient.float32_memory) float32_sum_ =",
    ),
    Bug(
        breaks="A worker that is forgotten while its step is taken over may claim a slot.",
        program="gate",
        file="sync/sync_gate.cc",
        old="    if (step->counted_ && is_open()",
        new="    if (step->at_gate_ && !step->replaced_ && is_open()",
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
        old=" && status.code() != StatusCode::kInvalidArgument",
        new="",
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
        breaks="A run goes on waiting although its successor has come.",
        program="gate",
        file="sync/sync_gate.cc",
        old="for (GateWait::List* const list : {&round_waits_, &open_waits_}) {",
        new="for (GateWait::List* const list : {&open_waits_}) {",
    ),
    Bug(
        breaks="Listed workers that never come are waited for for ever.",
        program="gate",
        file="sync/sync_gate_timing.cc",
        old="std::exchange(num_expected_, 0)",
        new="num_expected_",
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
        old="if (num_changes_.load() == num_changes) {",
        new="{",
    ),
]
