"""Bugs of the core that the explorer of schedules has to find.

The other C++ tests pass with each of them, at least nearly always.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """A change of one file that makes the core wrong."""

    breaks: str  # What is wrong then.
    program: str  # The program whose schedules show it.
    file: str  # The file, in cc/core.
    old: str  # The text that is replaced. It stands in the file exactly once.
    new: str


BUGS = [
    Bug(
        breaks="A call that requests a take folds a round that another thread folds already.",
        program="dense",
        file="accumulator/accumulator_impl.h",
        old="    if (takes_.empty() && round->phase == Phase::kOpen &&\n",
        new="    if (takes_.empty() && round->phase <= Phase::kFolding &&\n",
    ),
    Bug(
        breaks="A take waits for a retry although no timer could be set for it.",
        program="sparse",
        file="accumulator/accumulator_serving.h",
        old="!= TimerQueue::kNoTicket;",
        new="!= TimerQueue::Ticket{TimerQueue::Clock::time_point::max(), 0};",
    ),
    Bug(
        breaks="A retry takes for granted that the take still waits.",
        program="sparse",
        file="accumulator/accumulator_serving.h",
        old="  if (!takes_.empty()) ServeFront(*takes_",
        new="  ServeFront(*takes_",
    ),
    Bug(
        breaks="The workspace of a take that another thread is to serve may be gone by then.",
        program="sparse",
        file="accumulator/accumulator_impl.h",
        old="      if (take->waiting) take->keep_alive = std::move(keep_alive);\n",
        new="",
    ),
    Bug(
        breaks="After memory was refused twice, nobody tries again.",
        program="sparse",
        file="accumulator/accumulator_serving.h",
        old="  will_retry_ = false;\n",
        new="",
    ),
    Bug(
        breaks="A gradient is added while a second take is prepared after a first one.",
        program="sparse",
        file="accumulator/accumulator_impl.h",
        old="    while (round_->phase == Phase::kPreparingTake) added_.Wait(&mu_);\n",
        new="    if (round_->phase == Phase::kPreparingTake) added_.Wait(&mu_);\n",
    ),
    Bug(
        breaks="An apply returns while the thread that finishes the round reads its gradient.",
        program="dense",
        file="accumulator/accumulator_rounds.h",
        old="  MutexUnlock unlock(&mu_);\n  Value value",
        new="  round->num_added = round->num_appended;\n  MutexUnlock unlock(&mu_);\n  Value value",
    ),
    Bug(
        breaks="The thread that serves a take finishes a round that another thread still folds.",
        program="dense",
        file="accumulator/accumulator_serving.h",
        old="if (std::exchange(round->phase, Phase::kTaken) == Phase::kOpen) Finish(",
        new="if (std::exchange(round->phase, Phase::kTaken) <= Phase::kFolding) Finish(",
    ),
    Bug(
        breaks="A float32 sum is freed while a fold adds to it.",
        program="dense",
        file="dense/dense_sum.cc",
        old="  if (!float32_sum_) float32_sum_ =",
        new="  if (gradient.float32_memory) float32_sum_ =",
    ),
    Bug(
        breaks="A gradient that became stale while its memory was allocated is added.",
        program="dense",
        file="accumulator/accumulator_impl.h",
        old="    if (!status.ok()) return Error(status.code(), status.message().c_str());\n  }\n",
        new="    if (!status.ok()) return Error(status.code(), status.message().c_str());\n"
        "    if (round_->phase == Phase::kOpen && round_->sum.NeedOf(*gradient) == "
        "Contract::Need::kNothing) return ApplyOutcome::kAdded;\n  }\n",
    ),
    Bug(
        breaks="A worker completes a slot of a round in which its step did not begin.",
        program="gate",
        file="gate/sync_gate.cc",
        old="    if (reservation->round_ == round_ && slots_.Complete(reservation->slot_)) {",
        new="    if (slots_.Complete(reservation->slot_)) {",
    ),
    Bug(
        breaks="A worker claims a slot of a round in which its step did not begin.",
        program="gate",
        file="gate/sync_gate.cc",
        old="if (may_claim && is_open() && reservation->round_ == round_) {",
        new="if (may_claim && is_open() && reservation->round_ <= round_) {",
    ),
    Bug(
        breaks="A chief that was replaced ends the round of its successor.",
        program="gate",
        file="gate/sync_gate_chief.cc",
        old="  if (!chief_.Is(chief) || !is_open() ||",
        new="  if (!is_open() ||",
    ),
    Bug(
        breaks="A chief that was replaced sets back the accumulators of its successor.",
        program="gate",
        file="accumulator/accumulator_rounds.h",
        old="    if (only_forward && global_step <= gate_.global_step()) return 0;\n",
        new="    if (only_forward && global_step == gate_.global_step()) return 0;\n",
    ),
    Bug(
        breaks="Steps that were taken over are still waited for.",
        program="gate",
        file="gate/sync_gate_timing.cc",
        old="  for (GateReservation* const step : steps_) Uncount(step);\n",
        new="",
    ),
    Bug(
        breaks="A worker whose wait was cancelled is still waited for.",
        program="gate",
        file="gate/sync_gate_waits.cc",
        old="end.code == StatusCode::kOk ? WorkerState::kBetweenSteps : WorkerState::kLost;",
        new="WorkerState::kBetweenSteps;",
    ),
    Bug(
        breaks="Only the first timer of a gate is ever set.",
        program="gate",
        file="gate/sync_gate_timing.cc",
        old="    timer_ = TimerQueue::kNoTicket;\n    timer_deadline_ = Clock::time_point::max();\n"
        "    const",
        new="    timer_ = TimerQueue::kNoTicket;\n    const",
    ),
    Bug(
        breaks="A chief that was replaced is told that its successor's round is full.",
        program="gate",
        file="gate/sync_gate_waits.cc",
        old="  if (!chief_.Is(chief)) return kNotThisChief;\n",
        new="",
    ),
    Bug(
        breaks="A slot that was given to another worker is freed by its former holder.",
        program="gate",
        file="gate/slots.h",
        old="freed.state == State::kHeld && freed.holder == holder",
        new="freed.state != State::kFree && (holder > 0)",
    ),
    Bug(
        breaks="A slot stays held by a step that another run has replaced.",
        program="gate",
        file="gate/sync_gate.cc",
        old="    if (step->worker_ != worker || step->run_ == run) continue;\n"
        "    FreeSlot(step);\n",
        new="    if (step->worker_ != worker || step->run_ == run) continue;\n",
    ),
]
