// The workers of Training.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/memory.h"
#include "tests/cc/explorer/training/training.h"

namespace condacc::explorer {

void Training::SpawnWorker(int number, const std::string& run) {
  const std::string name = WorkerName(number);
  ++num_running_;
  Spawn(name, [this, number, name, run] {
    Work({number, {name, run}});
    NoteEnd();
  });
}

size_t Training::BeginComing(const Actor& worker, bool ends_sessions) {
  std::vector<Coming>& comings = comings_[worker.name];
  comings.push_back({worker.run, ends_sessions, Now()});
  return comings.size() - 1;
}

void Training::EndComing(const Actor& worker, size_t coming, bool is_sure) {
  Coming& ended = comings_[worker.name][coming];
  ended.returned = Now();
  ended.is_sure = is_sure;
  for (const GateWait::Ptr& wait : waits_) {
    const bool is_of_other = wait->who == worker.name && wait->run != worker.run;
    if (!is_sure || !is_of_other || !wait->is_waiting()) continue;
    if (wait->began.time_since_epoch().count() < ended.began) {
      Fail("a run has come, and another one that it replaces still waits");
    }
  }
}

bool Training::HasSuccessor(const Actor& worker, Time since, bool of_same_run) const {
  const auto found = comings_.find(worker.name);
  if (found == comings_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Coming& coming) {
    const bool is_successor = coming.run != worker.run || (of_same_run && coming.ends_sessions);
    return is_successor && coming.is_sure && coming.began > since && coming.returned <= Now();
  });
}

bool Training::MayHaveSuccessor(const Actor& worker, Time since) const {
  const auto found = comings_.find(worker.name);
  if (found == comings_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Coming& coming) {
    return (coming.run != worker.run || coming.ends_sessions) && coming.returned >= since;
  });
}

void Training::Work(Worker worker) {
  const bool leaves = workers_leave_ && worker.number > 0;
  const int num_steps = leaves ? num_rounds_ - Draw(2) : std::numeric_limits<int>::max();
  bool has_round = false;
  for (int i = 0; i < num_steps; ++i) {
    if (!has_round) has_round = AwaitOpening(&worker);
    // A new session of the chief ends the waits of the worker in its process.
    while (!has_round && !is_over_ && !MayBeNewProcess(worker)) has_round = AwaitOpening(&worker);
    if (is_over_ || !has_round) break;
    switch (Step(&worker)) {
      case StepEnd::kGoesOn:
        break;
      case StepEnd::kFailed:
        // The worker continues, or waits for an opening, as a new process or not, or has ended.
        if (worker.number > 0 && Draw(4) == 0) {
          if (Chance(50)) Leave(*gate_, worker.actor, /*is_lost=*/true);
          --num_workers_left_;
          return;
        }
        Sleep(Draw(30));
        has_round = Chance(33);
        if (MayBeNewProcess(worker) && Chance(has_round ? 25 : 50)) {
          worker.actor.run += "'";
        } else if (has_round && renews_sessions_) {
          has_round = false;  // A new session waits for an opening.
        }
        break;
      case StepEnd::kReplaced:
        CallLate(worker);
        return;  // Another run or session continues.
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
  const size_t coming = BeginComing(worker->actor, /*ends_sessions=*/true);
  const WaitEnd end = Await(GateWait::For::kOpening, worker->actor, 0, /*is_fragile=*/false);
  const bool is_accepted = end.code == StatusCode::kOk;
  EndComing(worker->actor, coming, is_accepted);
  --num_at_opening_;
  worker->round = end.round;
  return is_accepted;
}

void Training::AwaitEnd() {
  while (!is_over_) BlockOn(&is_over_, "hangs");
}

void Training::SpawnSuccessor(const Worker& worker) {
  const bool is_session = !MayBeNewProcess(worker) || (renews_sessions_ && Chance(50));
  SpawnWorker(worker.number, worker.actor.run + (is_session ? "" : "+"));
}

Training::StepEnd Training::DrawFault(const Worker& worker) {
  if (!has_faults_) return StepEnd::kGoesOn;
  if (Draw(40) == 0) Sleep(Draw(1000));  // It is slow.
  if ((takes_over_ || notices_ends_) && worker.number > 0 && Draw(60) == 0) {
    // It hangs, so that others have to take over its slot.
    --num_workers_left_;
    if (notices_ends_) {
      Spawn("monitor", [this, name = worker.actor.name, delay = Draw(300)] {
        Sleep(delay);
        Lose(*gate_, name);
      });
    }
    AwaitEnd();
    ++num_workers_left_;
  }
  if (Draw(25) == 0) return StepEnd::kFailed;
  if (Draw(60) == 0) {
    SpawnSuccessor(worker);
    Chance(50) ? AwaitEnd() : Sleep(Draw(500));
    return StepEnd::kReplaced;
  }
  return StepEnd::kGoesOn;
}

Training::StepEnd Training::Step(Worker* worker) {
  const Time began = Now();
  const size_t coming = BeginComing(worker->actor, /*ends_sessions=*/false);
  const std::unique_ptr<WorkerStep> step = Enter(*gate_, worker->actor, worker->round);
  EndComing(worker->actor, coming, /*is_sure=*/step != nullptr);
  if (step == nullptr) {
    // With backup workers, a run may have one step at a time.
    if (num_slots_ >= total_ && !MayHaveSuccessor(worker->actor, 0)) {
      Fail("a step was refused, and no other run has come");
    }
    return StepEnd::kFailed;
  }
  const Time entered = Now();
  if (num_slots_ < total_ && Draw(60) == 0) {
    // Refused, unless the first step was taken over meanwhile.
    static_cast<void>(Enter(*gate_, worker->actor, worker->round));
  }
  const int64_t version = version_;
  // The step may be taken over before it claims a slot.
  const bool is_late = takes_over_ && Draw(5) == 0;
  Sleep(Draw(is_late ? 1000 : 6));
  StepEnd end = DrawFault(*worker);
  if (end == StepEnd::kFailed) return end;
  const bool is_replaced = HasSuccessor(worker->actor, entered);
  const WorkerStep::Claim claim = Claim(*step);
  if (is_replaced && claim.granted) {
    Fail("a slot was granted to a step whose successor had entered");
  }
  if (end == StepEnd::kReplaced && Chance(25)) return end;  // It gives the slot back.
  bool any_added = false;
  end = PushAll(*worker, claim, version, end, &any_added);
  if (end == StepEnd::kFailed) return end;
  EndStep(*step, any_added);
  if (end == StepEnd::kReplaced) return end;
  if (has_faults_ && MayBeNewProcess(*worker) && Draw(60) == 0) {
    // The successor comes while this one waits. It is another run: the gate would take a wait of an
    // earlier session that begins after its end for one of the new session.
    SpawnWorker(worker->number, worker->actor.run + "+");
    end = StepEnd::kReplaced;
  }
  const StepEnd waited = AwaitNextRound(worker, began);
  // If the gate has forgotten the successor, it takes this run for the worker again.
  if (end == StepEnd::kReplaced) {
    const size_t leaving = BeginComing(worker->actor, /*ends_sessions=*/false);
    Leave(*gate_, worker->actor, /*is_lost=*/true);
    EndComing(worker->actor, leaving, /*is_sure=*/false);
  }
  return end == StepEnd::kReplaced ? end : waited;
}

Training::StepEnd Training::AwaitNextRound(Worker* worker, Time entered) {
  const WaitEnd wait = Await(GateWait::For::kNextRound, worker->actor, worker->round, has_faults_);
  if (wait.code == StatusCode::kFailedPrecondition && !MayHaveSuccessor(worker->actor, entered)) {
    Fail("a wait was ended for another run, and none has come");
  }
  if (wait.code == StatusCode::kOk) {
    worker->round = wait.round;
    return StepEnd::kGoesOn;
  }
  if (wait.code != StatusCode::kOutOfRange) return StepEnd::kFailed;
  if (num_closes_ == 0) Fail("training has ended, and no chief that may has ended it");
  return StepEnd::kTrainingEnded;
}

void Training::CallLate(const Worker& worker) {
  // The gate knows which runs it has replaced if it knew them when it was opened.
  const std::vector<Coming>& comings = comings_[worker.actor.name];
  const auto first = std::find_if(comings.begin(), comings.end(), [&](const Coming& coming) {
    return coming.run == worker.actor.run;
  });
  const bool is_known = KnowsAllRuns() && first != comings.end() && first->began > opened_ &&
                        HasSuccessor(worker.actor, first->returned, /*of_same_run=*/false);
  if (!is_known || is_over_) return;
  Reached("late calls of a replaced run");
  if (Chance(50)) Leave(*gate_, worker.actor, /*is_lost=*/Chance(50));
  if (Chance(50) && Enter(*gate_, worker.actor, worker.round) != nullptr && KnowsAllRuns()) {
    Fail("a replaced run has entered");
  }
  for (const auto what : {GateWait::For::kNextRound, GateWait::For::kOpening}) {
    if (Chance(50) || !KnowsAllRuns()) continue;
    const WaitEnd wait = Await(what, worker.actor, worker.round, /*is_fragile=*/false);
    if (wait.code == StatusCode::kOk && KnowsAllRuns())
      Fail("a wait of a replaced run was granted");
  }
}

void Training::Disturb() {
  for (int i = Draw(4); i >= 0 && !is_over_; --i) {
    Sleep(Draw(200));
    if (Chance(50)) Lose(*gate_, WorkerName(Draw(num_workers_)));
    Reached("SyncGate::Describe");
    if (gate_->Describe().empty()) Fail("the gate has no description");
    Reached("SyncGate::state");
    if (gate_->state().num_complete > num_slots_) Fail("more slots are complete than there are");
  }
}

Training::StepEnd Training::PushAll(const Worker& worker, const WorkerStep::Claim& claim,
                                    int64_t version, StepEnd end, bool* any_added) {
  if (pushes_bundles_) {
    PushBundle(claim, version, any_added);
    return end == StepEnd::kGoesOn ? DrawFault(worker) : end;
  }
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    // A worker that has been replaced continues its step.
    if (end == StepEnd::kGoesOn) end = DrawFault(worker);
    if (end == StepEnd::kFailed) return end;
    Buffer values = NewBuffer(kGradientBytes);
    WriteGradient(claim, values.data());
    Push(claim, version, i, std::move(values), any_added);
  }
  return end;
}

// A bundle has the gradients one after another. The server copies each to memory of its own, and
// adds all at the same time.
void Training::PushBundle(const WorkerStep::Claim& claim, int64_t version, bool* any_added) {
  Reached("bundle");
  auto bundle = std::make_shared<std::vector<char>>(kGradientBytes * accumulators_.size());
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    WriteGradient(claim, bundle->data() + i * kGradientBytes);
  }
  size_t num_left = accumulators_.size();
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    Spawn("push", [&, bundle, i] {
      Buffer values = NewBuffer(kGradientBytes);
      std::memcpy(values.data(), bundle->data() + i * kGradientBytes, kGradientBytes);
      Push(claim, version, i, std::move(values), any_added);
      --num_left;
      Wake(&num_left);
    });
  }
  while (num_left > 0) BlockOn(&num_left, "awaits its pushes");
}

void Training::WriteGradient(const WorkerStep::Claim& claim, void* to) {
  const int64_t values[] = {1, int64_t{1} << claim.slot, claim.round};
  static_assert(sizeof values == kGradientBytes);
  std::memcpy(to, values, sizeof values);
}

void Training::Push(const WorkerStep::Claim& claim, int64_t version, size_t accumulator,
                    Buffer values, bool* any_added) {
  Gradient gradient;
  gradient.shape = Shape::Of({kGradientBytes / static_cast<int64_t>(sizeof(int64_t))});
  gradient.owned = true;
  gradient.values = std::move(values);
  ExplorerDenseWorkspace workspace;
  gradient.contributor = claim.slot;
  const ApplyResult result =
      accumulators_[accumulator]->Apply(claim.round, std::move(gradient), workspace);
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
