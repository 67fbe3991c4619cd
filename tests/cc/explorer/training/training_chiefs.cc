// The chiefs of Training.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/memory.h"
#include "tests/cc/explorer/training/training.h"

namespace condacc::explorer {

void Training::Lead(Chief chief) {
  constexpr int kMaxPrepares = 12;
  while (!is_over_ && num_prepares_ < kMaxPrepares) {
    if (PrepareAndOpen(&chief)) {
      if (observes_) Observe(chief);
      LeadRounds(&chief);
    }
    if (!IsReplaced(chief)) {
      if (is_over_ || num_workers_left_ == 0) break;
      Sleep(Draw(30));  // It has failed, and is started again.
      if (Chance(75)) ++chief.actor.session;
      continue;
    }
    CallLate(&chief);
    if (!Chance(25)) break;  // Otherwise, it replaces its successor.
  }
  --num_chiefs_left_;
  NoteEnd();
}

void Training::Volunteer(Chief chief) {
  Sleep(Draw(100));
  PrepareAndOpen(&chief);
  if (Chance(33)) {
    ++chief.actor.session;
    PrepareAndOpen(&chief);
  }
  // If another chief has the gate, this one is given rounds only until that waits for one.
  while (!is_over_ && num_rounds_done_ < num_rounds_) {
    const WaitEnd wait = Await(GateWait::For::kFullRound, chief.actor, 0, /*is_fragile=*/false);
    if (wait.code != StatusCode::kOk) return;
    chief.is_deputy = true;
    chief.round = wait.round;
    if (!ApplyRound(&chief, wait.round)) continue;
    BeginCall(&chief, "advance as a deputy");
    Advance(*gate_, chief.actor, wait.round);
  }
}

void Training::BeginCall(Chief* chief, const char* call) {
  if (chief->num_calls++ == chief->freezes_at) {
    first_chief_froze_ = true;
    Wake(&first_chief_froze_);
    Sleep(Draw(2000));
  }
  chief->call = call;
  chief->was_replaced = IsReplaced(*chief);
  Point(call);
}

bool Training::EndCall(const Chief& chief, bool is_accepted) {
  const std::string call = std::string("the call \"") + chief.call + "\" of a chief";
  if (chief.was_replaced && is_accepted) Fail(call + " that was replaced was accepted");
  if (!is_accepted && !MayBeReplaced(chief)) Fail(call + " that was not replaced was refused");
  return is_accepted;
}

SyncGate::Prepared Training::CallPrepare(Chief* chief) {
  int64_t highest = 0;
  for (const auto& accumulator : accumulators_) {
    highest = std::max(highest, accumulator->global_step());
  }
  ++num_prepares_;
  chief->num_earlier_prepares = num_prepares_ended_;
  SyncGate::Prepared prepared;
  const Actor worker{chief->worker, chief->actor.run};
  const size_t coming = BeginComing(worker, /*ends_sessions=*/true);
  if (!Prepare(*gate_, chief->actor, highest, chief->volunteers, &prepared, chief->worker)) {
    Fail("a chief could not prepare");
  }
  EndComing(worker, coming, /*is_sure=*/false);
  ++num_prepares_ended_;
  if (prepared.begins) prepared_round_ = std::max(prepared_round_, prepared.round);
  // If a session prepares the gate twice, either of the two calls may get here first.
  if (prepared.is_chief) version_of_round_.emplace(prepared.round, version_);
  return prepared;
}

SyncGate::Options Training::DrawOptions() const {
  SyncGate::Options options;
  options.num_slots = num_slots_;
  options.num_workers = total_;
  options.takeover = std::chrono::nanoseconds(takes_over_ ? 1 + Draw(Chance(50) ? 300 : 60) : 0);
  const bool never_reports = waits_for_lost_ && Chance(20);
  options.report = std::chrono::nanoseconds(never_reports ? 0 : 1 + Draw(100));
  options.wait_for_lost = waits_for_lost_;
  if (announces_workers_) {
    const NewPermit permit;
    for (int i = Draw(num_workers_ + 1); i >= 0; --i) {
      options.listed.push_back(WorkerName(i));
    }
    options.start = std::chrono::nanoseconds(Draw(300));
  }
  return options;
}

void Training::SpawnSecondPreparation(const Chief& chief) {
  ++num_second_preparations_;
  Chief second = chief;
  second.volunteers = true;
  second.freezes_at = -1;
  Spawn("second preparation", [this, second, delay = Draw(200)]() mutable {
    Sleep(delay);
    OpenAgain(&second);
    --num_second_preparations_;
    Wake(&num_second_preparations_);
  });
}

void Training::AwaitSecondPreparations() {
  while (num_second_preparations_ > 0) {
    BlockOn(&num_second_preparations_, "awaits the second preparation");
  }
}

void Training::OpenAgain(Chief* chief) {
  const SyncGate::Prepared prepared = CallPrepare(chief);
  chief->round = prepared.round;
  ResetAccumulators(chief);
  Open(*gate_, chief->actor, prepared.round, DrawOptions(), chief->volunteers);
}

bool Training::PrepareAndOpen(Chief* chief) {
  BeginCall(chief, "prepare");
  if (is_over_) return false;
  if (prepares_twice_ && !chief->volunteers) SpawnSecondPreparation(*chief);
  const SyncGate::Prepared prepared = CallPrepare(chief);
  chief->round = prepared.round;
  ResetAccumulators(chief);
  if (has_faults_ && !chief->volunteers && Draw(40) == 0) {
    Fault(chief);  // While it prepares.
    return false;
  }
  BeginCall(chief, "open");
  const bool is_accepted =
      Open(*gate_, chief->actor, chief->round, DrawOptions(), chief->volunteers);
  // The call of a volunteer that was replaced does nothing and succeeds.
  if (chief->volunteers) return prepared.is_chief && !IsReplaced(*chief);
  if (!EndCall(*chief, is_accepted)) return false;
  opened_ = std::min(opened_, Now());
  if (!gives_credits_) return true;
  BeginCall(chief, "add credits");
  // With fewer credits, the gate would wait for more workers than there are.
  const int num_credits = std::max(1 + Draw(3), num_slots_ - num_workers_);
  return EndCall(*chief, AddCredits(*gate_, chief->actor, num_credits));
}

void Training::ResetAccumulators(Chief* chief) {
  for (const auto& accumulator : accumulators_) {
    BeginCall(chief, "reset");
    const int64_t before = accumulator->global_step();
    ResetForRound(*accumulator, chief->round);
    if (accumulator->global_step() < before) {
      Fail("a reset for round " + std::to_string(chief->round) +
           " has set back an accumulator that was at " + std::to_string(before));
    }
  }
}

void Training::Observe(const Chief& chief) {
  auto has_ended = std::make_shared<bool>(false);
  const int64_t after = Chance(50) ? 0 : chief.round;
  const GateWait::Ptr wait =
      NewWait(GateWait::For::kReport, chief.actor, after, [has_ended](const GateWait& ended) {
        if (HoldsLock()) Fail("a report is given under a lock");
        if (std::exchange(*has_ended, true)) Fail("a report is given twice");
        if (ended.end.code == StatusCode::kOk && ended.report.empty()) Fail("a report has no text");
        Wake(has_ended.get());
      });
  wait->patience = std::chrono::nanoseconds(Draw(300));
  Spawn("observer", [gate = gate_, wait, has_ended] {
    BeginWait(*gate, wait);
    while (!*has_ended) BlockOn(has_ended.get(), "observes");
  });
  Spawn("end of observer", [gate = gate_, wait, delay = Draw(3000)] {
    Sleep(delay);
    CancelWait(*gate, wait);
  });
}

void Training::LeadRounds(Chief* chief) {
  while (num_workers_left_ > 0) {
    if (has_faults_ && Draw(40) == 0) return Fault(chief);
    BeginCall(chief, "await a full round");
    const WaitEnd wait = Await(GateWait::For::kFullRound, chief->actor, 0, /*is_fragile=*/false);
    if (is_over_) return;
    if (!waits_for_lost_ && wait.code == StatusCode::kFailedPrecondition) return;
    if (!EndCall(*chief, wait.code == StatusCode::kOk) || !ApplyRound(chief, wait.round)) return;
    if (num_rounds_done_ >= num_rounds_) return EndTraining(chief);
    BeginCall(chief, "advance");
    if (!EndCall(*chief, Advance(*gate_, chief->actor, wait.round))) return;
  }
}

void Training::Fault(Chief* chief) {
  AwaitSecondPreparations();
  BeginCall(chief, "dismiss");
  if (Chance(90)) {
    Dismiss(*gate_, chief->actor);
    if (Chance(10)) Dismiss(*gate_, chief->actor);
  }
  if (Chance(10)) EndTraining(chief);
}

void Training::EndTraining(Chief* chief) {
  AwaitSecondPreparations();
  BeginCall(chief, "close");
  if (!chief->was_replaced) ++num_closes_;
  if (EndCall(*chief, Close(*gate_, chief->actor))) {
    End();
    last_prepared_round_ = chief->round;
    if (Chance(25)) Dismiss(*gate_, chief->actor);  // Its session ends.
  }
}

bool Training::ApplyRound(Chief* chief, int64_t round) {
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    if (TakeGradients(chief, i, round)) continue;
    if (!MayBeReplaced(*chief)) {
      Fail("round " + std::to_string(round) + " is full, but accumulator " + std::to_string(i) +
           " does not give its gradients");
    }
    return false;
  }
  if (MayBeReplaced(*chief)) has_late_update_ = true;
  ++version_;
  ++num_rounds_done_;
  version_of_round_[round + 1] = version_;
  return true;
}

bool Training::TakeGradients(Chief* chief, size_t accumulator, int64_t round) {
  using Take = PendingTake;
  BeginCall(chief, "take");
  // The gradients of all slots, added up.
  const int64_t expected[] = {num_slots_, (int64_t{1} << num_slots_) - 1, num_slots_ * round};
  bool has_ended = false;
  bool is_served = false;
  const auto workspace = std::make_shared<ExplorerDenseWorkspace>();
  const auto take = std::make_shared<Take>(
      num_slots_,
      [&](const Status& status, Value* value) {
        is_served = status.ok();
        if (is_served && !std::equal(std::begin(expected), std::end(expected),
                                     static_cast<const int64_t*>(value->values.data()))) {
          Fail("round " + std::to_string(round) + " has other gradients than one of each slot");
        }
        has_ended = true;
        Wake(&has_ended);
      },
      round);
  if (!accumulators_[accumulator]->TryServe(take, *workspace)) return false;
  while (!has_ended) BlockOn(&has_ended, "waits for a take");
  return is_served;
}

void Training::CallLate(Chief* chief) {
  ResetAccumulators(chief);
  for (size_t i = 0; i < accumulators_.size(); ++i) TakeGradients(chief, i, chief->round);
  BeginCall(chief, "open");
  EndCall(*chief, Open(*gate_, chief->actor, chief->round, SyncGate::Options(), false));
  BeginCall(chief, "add credits");
  EndCall(*chief, AddCredits(*gate_, chief->actor, 1 + Draw(3)));
  for (const int64_t round : {chief->round, gate_->state().round}) {
    BeginCall(chief, "advance");
    EndCall(*chief, Advance(*gate_, chief->actor, round));
  }
  BeginCall(chief, "close");
  EndCall(*chief, Close(*gate_, chief->actor));
  BeginCall(chief, "dismiss");
  Dismiss(*gate_, chief->actor);
  BeginCall(chief, "await a full round");
  EndCall(*chief, Await(GateWait::For::kFullRound, chief->actor, 0, /*is_fragile=*/false).code ==
                      StatusCode::kOk);
}

}  // namespace condacc::explorer
