// The workers of Training.
#include <cstring>
#include <limits>
#include <utility>

#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/memory.h"
#include "tests/cc/explorer/training.h"

namespace condacc::explorer {

void Training::SpawnWorker(int number, const std::string& run) {
  const std::string name = "worker " + std::to_string(number);
  ++num_running_;
  Spawn(name, [this, number, name, run] {
    Work({number, {name, run}});
    NoteEnd();
  });
}

void Training::Work(Worker worker) {
  const bool leaves = workers_leave_ && worker.number > 0;
  const int num_steps = leaves ? num_rounds_ - Draw(2) : std::numeric_limits<int>::max();
  bool has_round = false;
  for (int i = 0; i < num_steps; ++i) {
    if (!has_round) has_round = AwaitOpening(&worker);
    if (is_over_ || !has_round) break;
    switch (Step(&worker)) {
      case StepEnd::kGoesOn:
        break;
      case StepEnd::kFailed:
        // The worker continues, or waits for an opening, as a new process or not, or has ended.
        if (worker.number > 0 && Draw(4) == 0) {
          --num_workers_left_;
          return;
        }
        Sleep(Draw(30));
        has_round = Chance(33);
        if (!has_round && Chance(50)) worker.actor.run += "'";
        break;
      case StepEnd::kReplaced:
        return;  // Another run continues.
      case StepEnd::kTrainingEnded:
        --num_workers_left_;
        return;
    }
  }
  if (!is_over_) Leave(*gate_, worker.actor);
  --num_workers_left_;
}

bool Training::AwaitOpening(Worker* worker) {
  ++num_at_opening_;
  const WaitEnd end = Await(GateWait::For::kOpening, worker->actor, 0, /*is_fragile=*/false);
  --num_at_opening_;
  worker->round = end.round;
  return end.code == StatusCode::kOk;
}

void Training::AwaitEnd() {
  while (!is_over_) BlockOn(&is_over_, "hangs");
}

Training::StepEnd Training::DrawFault(const Worker& worker) {
  if (!has_faults_) return StepEnd::kGoesOn;
  if (Draw(40) == 0) Sleep(Draw(1000));  // It is slow.
  if (takes_over_ && worker.number > 0 && Draw(60) == 0) {
    // It hangs, so that others have to take over its slot.
    --num_workers_left_;
    AwaitEnd();
    ++num_workers_left_;
  }
  if (Draw(25) == 0) return StepEnd::kFailed;
  if (Draw(60) == 0) {
    SpawnWorker(worker.number, worker.actor.run + "+");
    Chance(50) ? AwaitEnd() : Sleep(Draw(500));
    return StepEnd::kReplaced;
  }
  return StepEnd::kGoesOn;
}

Training::StepEnd Training::Step(Worker* worker) {
  const std::unique_ptr<WorkerStep> step = Enter(*gate_, worker->actor, worker->round);
  if (step == nullptr) return StepEnd::kFailed;
  const int64_t version = version_;
  // The step may be taken over before it claims a slot.
  const bool is_late = takes_over_ && Draw(5) == 0;
  Sleep(Draw(is_late ? 1000 : 6));
  StepEnd end = DrawFault(*worker);
  if (end == StepEnd::kFailed) return end;
  const WorkerStep::Claim claim = step->ClaimSlot();
  bool any_added = false;
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    // A worker that has been replaced continues its step.
    if (end == StepEnd::kGoesOn) end = DrawFault(*worker);
    if (end == StepEnd::kFailed) return end;
    Push(claim, version, i, &any_added);
  }
  EndStep(*step, any_added);
  if (end == StepEnd::kReplaced) return end;
  const WaitEnd wait = Await(GateWait::For::kNextRound, worker->actor, worker->round, has_faults_);
  if (wait.code == StatusCode::kOk) {
    worker->round = wait.round;
    return StepEnd::kGoesOn;
  }
  if (wait.code != StatusCode::kOutOfRange) return StepEnd::kFailed;
  if (num_closes_ == 0) Fail("training has ended, and no chief that may has ended it");
  return StepEnd::kTrainingEnded;
}

void Training::Push(const WorkerStep::Claim& claim, int64_t version, size_t accumulator,
                    bool* any_added) {
  const int64_t values[] = {1, int64_t{1} << claim.slot, claim.round};
  Gradient gradient;
  gradient.shape = Shape::Of({static_cast<int64_t>(std::size(values))});
  gradient.owned = true;
  gradient.values = NewBuffer(sizeof values);
  std::memcpy(gradient.values.data(), values, sizeof values);
  ExplorerDenseWorkspace workspace;
  const ApplyResult result =
      accumulators_[accumulator]->Apply(claim.round, std::move(gradient), workspace, claim.slot);
  const std::string what = "a gradient of round " + std::to_string(claim.round);
  if (!result.ok()) return Fail(what + " was refused: " + result.status().message());
  if (claim.granted && result.outcome() == ApplyOutcome::kAhead) {
    Fail(what + " is ahead of its accumulator, which was set back");
  }
  if (!result.is_added()) return;
  *any_added = true;
  if (!claim.granted) Fail("a gradient without a slot was added");
  if (!has_late_update_ && version_of_round_[claim.round] != version) {
    Fail(what + " was computed with parameters of another round");
  }
}

}  // namespace condacc::explorer
