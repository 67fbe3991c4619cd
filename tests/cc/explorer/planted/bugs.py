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
        breaks="A cancelled take removes bad gradients, and nobody is told.",
        program="device",
        file="accumulator/accumulator.cc",
        old="    if (status.ok()) round.sum->AbandonFinish();\n",
        new="    if (status.ok()) round.sum->AbandonFinish();\n"
        "    if (!status.ok() && !round.sum->refused().empty()) RemoveRefused(&round);\n",
    ),
    Bug(
        breaks="Of two bad gradients, only the first is found.",
        program="device",
        file="sparse/device_rows.cc",
        old="    has_found = true;\n",
        new="    return Status();\n",
    ),
    Bug(
        breaks="A sum counts its gradients instead of their weights.",
        program="dense",
        file="accumulator/gradient_order.h",
        old="Arrival{KeyOf(gradient), gradient.weight}",
        new="Arrival{KeyOf(gradient), 1}",
    ),
    Bug(
        breaks="The weights of contributors are added in the order of their arrival.",
        program="dense",
        file="accumulator/gradient_order.h",
        old="    arrivals_.insert(Find(arrival.contributor), arrival);\n",
        new="    arrivals_.insert(Find(arrival.contributor), {arrival.contributor, 0});\n"
        "    arrivals_.front().weight += arrival.weight;\n",
    ),
    Bug(
        breaks="An early gradient is added before those of lower contributors.",
        program="dense",
        file="dense/dense_sum.h",
        old="return pending_.buffers.size() - order_.num_early();",
        new="return pending_.buffers.size();",
    ),
    Bug(
        breaks="A borrowed gradient that is early is not copied.",
        program="dense",
        file="dense/dense_sum.cc",
        old="  if (is_early ? !gradient.owned : is_saving_ && IsUrgent(gradient)) return Missing::",
        new="  if (!is_early && is_saving_ && IsUrgent(gradient)) return Missing::",
    ),
    Bug(
        breaks="A fold that got no memory leaves gradients behind later contributors.",
        program="sparse",
        file="sparse/sparse_sum.cc",
        old="    pending_.splice(pending_.begin(), folding_);\n",
        new="    pending_.splice(pending_.end(), folding_);\n",
    ),
    Bug(
        breaks="A contributor whose place in the order has been passed adds another gradient.",
        program="device",
        file="sparse/sparse_sum.cc",
        old="order_.IsPassed(gradient)",
        new="order_.num_early() > kBookkeepingBytes",
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
