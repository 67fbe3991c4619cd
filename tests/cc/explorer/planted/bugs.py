"""Bugs of the core that the explorer of schedules has to find.

The other C++ tests pass with each of them, at least nearly always.
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
        breaks="When a fold got no memory, applies that wait for it are not woken.",
        program="sparse",
        file="accumulator/accumulator_folds.cc",
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
        file="accumulator/accumulator_folds.cc",
        old="  if (!has_started) EndWork(round, call);\n",
        new="  if (!has_started) round->work = Work::kNone;\n",
    ),
    Bug(
        breaks="Two threads fold one round.",
        program="sparse",
        file="accumulator/accumulator_folds.cc",
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
        old="is_open() && is_full() && deputy_round_ != round_;\n",
        new="is_open() && is_full();\n",
    ),
]
