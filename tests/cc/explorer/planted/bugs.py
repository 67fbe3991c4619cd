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
        breaks="A retry that comes while a fold runs is given up, and no other one follows.",
        program="sparse",
        file="accumulator/accumulator_serving.h",
        old="  will_retry_ = false;\n",
        new="  if (round_->phase != Phase::kOpen) return;\n  will_retry_ = false;\n",
    ),
    Bug(
        breaks="When a fold got no memory, applies that wait for it are not woken.",
        program="sparse",
        file="accumulator/accumulator_rounds.h",
        old="round->phase = Phase::kOpen;\n  added_.NotifyAll();\n",
        new="round->phase = Phase::kOpen;\n  if (succeeded) added_.NotifyAll();\n",
    ),
    Bug(
        breaks="A gradient is added while a take is prepared that was not when its apply began.",
        program="sparse",
        file="accumulator/accumulator_impl.h",
        old="  while (true) {\n"
        "    while (round_->phase == Phase::kPreparingTake) added_.Wait(&mu_);\n",
        new="  while (round_->phase == Phase::kPreparingTake) added_.Wait(&mu_);\n"
        "  while (true) {\n",
    ),
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
        breaks="A float32 sum is freed while a fold adds to it.",
        program="dense",
        file="dense/dense_sum.cc",
        old="  if (!float32_sum_) float32_sum_ =",
        new="  if (gradient.float32_memory) float32_sum_ =",
    ),
    Bug(
        breaks="A slot that another worker has taken over is freed when its former holder ends.",
        program="gate",
        file="sync/slots.h",
        old="freed.state == State::kHeld && freed.holder == holder",
        new="freed.state != State::kFree && holder != 0",
    ),
]
