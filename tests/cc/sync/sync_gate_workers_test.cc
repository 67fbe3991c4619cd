// Workers that end, come back, and are replaced by others.
#include <chrono>
#include <memory>
#include <string>

#include "cc/core/sync/sync_gate.h"
#include "gtest/gtest.h"
#include "tests/cc/sync/sync_gate_support.h"

namespace condacc {
namespace {

using For = GateWait::For;
using std::chrono::seconds;

TEST_F(SyncGateTest, AWorkerThatIsBackUnderAnotherNameIsNotWaitedForBesideItsSuccessor) {
  OpenFor(3, 2);
  Step(0);
  w(0).GoOn();  // It dies between two steps, and w2 takes its place.
  Worker successor(gate_, "w2");
  ASSERT_TRUE(successor.Claim());
  successor.Finish();
  Step(1);  // All three slots are complete.
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  successor.GoOn();
  w(1).GoOn();
  ASSERT_TRUE(w(1).Claim());
  ASSERT_TRUE(successor.Claim());
  successor.Finish();
  successor.GoOn();  // No other worker is left for the third slot.
  ASSERT_TRUE(successor.Claim());
}

TEST_F(SyncGateTest, AnotherRunOfAWorkerFreesTheSlotOfTheOneThatItReplaces) {
  OpenFor(2, 2);
  Step(0);
  ASSERT_TRUE(w(1).Claim());  // Its host is lost, and the connection stays open.
  Worker successor(gate_, "w1", "another run");
  ASSERT_TRUE(successor.Claim());
  EXPECT_EQ(successor.claim.slot, w(1).claim.slot);
  EXPECT_TRUE(w(0).is_waiting());
  w(1).Fail();
  successor.Finish();
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
}

TEST_F(SyncGateTest, ARunThatWasReplacedGetsErrorsAndDisturbsNobody) {
  OpenFor(2, 2);
  Step(0);
  Step(1);
  Worker successor(gate_, "w1", "another run");
  const auto opening = BeginWait(gate_, For::kOpening, "w1", 0, {}, "another run");
  EXPECT_EQ(opening->code(), StatusCode::kOk);
  EXPECT_EQ(w(1).wait->code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(w(1).wait->message().find("replaced by another process"), std::string::npos);
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  successor.round = w(1).round = 2;
  ASSERT_TRUE(successor.Claim());
  EXPECT_FALSE(w(1).Claim());
  EXPECT_EQ(w(1).step, nullptr);
  EXPECT_EQ(BeginWait(gate_, For::kOpening, "w1")->code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(BeginWait(gate_, For::kNextRound, "w1", 2)->code(), StatusCode::kFailedPrecondition);
  gate_->Leave("w1", RunOf("w1"), /*is_lost=*/false);
  w(0).GoOn();
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());  // The successor has not left.
  successor.Finish();
  EXPECT_TRUE(gate_->Advance({"c"}, 2));
}

TEST_F(SyncGateTest, AStepThatWasReplacedCompletesTheSlotThatItHasPushed) {
  OpenFor(2, 2);
  Step(0);
  ASSERT_TRUE(w(1).Claim());
  Worker successor(gate_, "w1", "another run");
  ASSERT_TRUE(successor.Claim());
  w(1).Finish();
  EXPECT_EQ(w(1).wait->code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
}

TEST_F(SyncGateTest, WithBackupsASecondStepOfOneRunIsRefusedUntilTheFirstHasEnded) {
  OpenFor(2, 3);
  Worker thread(gate_, "w1");
  ASSERT_TRUE(w(1).Claim());
  const auto is_refused = [&] {
    thread.Claim();
    return thread.step == nullptr;
  };
  EXPECT_TRUE(is_refused());  // The other step computes.
  w(1).Finish();
  EXPECT_TRUE(is_refused());  // It waits.
  EXPECT_EQ(gate_->state().num_complete, 1);
  w(1).wait->Cancel();
  EXPECT_FALSE(is_refused());
  thread.Fail();
  ASSERT_TRUE(w(1).Claim());
  w(1).Fail();
  EXPECT_FALSE(is_refused());
}

TEST_F(SyncGateTest, AWaitEndsNoStepAndNoWaitOfAnotherThreadOfItsRun) {
  OpenFor(3, 3);
  Worker other(gate_, "w0");
  Worker third(gate_, "w0");
  ASSERT_TRUE(w(0).Claim());
  ASSERT_TRUE(other.Claim());
  ASSERT_TRUE(third.Claim());
  w(0).Finish();
  other.Finish();
  EXPECT_TRUE(w(0).is_waiting());
  EXPECT_FALSE(third.step->Done(/*any_added=*/true));
  EXPECT_EQ(gate_->state().num_complete, 3);
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  w(0).GoOn();
  other.GoOn();
}

TEST_F(SyncGateTest, AWorkerThatLeavesDuringAStepOfAnotherThreadHasLeft) {
  OpenFor(3, 2);
  ASSERT_TRUE(w(1).Claim());
  gate_->Leave("w1", RunOf("w1"), /*is_lost=*/false);
  w(1).step->Done(true);
  Step(0);
  EXPECT_FALSE(w(0).is_waiting());
  EXPECT_NE(gate_->Describe().find("left: w1"), std::string::npos);
}

TEST_F(SyncGateTest, AWorkerThatTellsOfItsFailureIsLostAtOnce) {
  OpenFor(2, 2);
  Step(1);
  EXPECT_TRUE(gate_->Advance({"c"}, 1) || w(1).is_waiting());
  ASSERT_TRUE(w(0).Claim());
  w(0).Finish();
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  w(0).GoOn();
  w(1).GoOn();
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());
  gate_->Leave("w1", RunOf("w1"), /*is_lost=*/true);
  EXPECT_NE(gate_->Describe().find("lost: w1"), std::string::npos);
  w(0).GoOn();
}

TEST_F(SyncGateTest, AWorkerWhoseProcessIsGoneLosesItsSlot) {
  OpenFor(2, 3);
  Step(0);
  ASSERT_TRUE(w(1).Claim());
  gate_->Lose("w1");
  gate_->Lose("w2");  // It was never seen.
  w(0).GoOn();
  ASSERT_TRUE(w(0).Claim());
  EXPECT_EQ(w(0).claim.slot, w(1).claim.slot);
  ASSERT_TRUE(w(1).step->Done(false));  // Its gradients are in no accumulator.
  Worker back(gate_, "w2");
  back.Claim();
  EXPECT_EQ(gate_->Describe().find("lost: w2"), std::string::npos);
}

TEST_F(SyncGateTest, AWorkerThatIsLostBeforeItHasComeIsNotWaitedFor) {
  OpenForThatCome(2, 2, /*num_come=*/1);
  ASSERT_TRUE(gate_->AddCredits({"c"}, 0).ok());  // The round waits for the other one, too.
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());
  gate_->Lose("w1");
  EXPECT_FALSE(w(0).is_waiting());
}

TEST_F(SyncGateTest, AWorkerWhoseProcessIsGoneTakesNoSlotFromOthers) {
  OpenFor(2, 3);
  ASSERT_TRUE(w(0).Claim());
  ASSERT_TRUE(w(1).Claim());
  gate_->Lose("w1");
  ASSERT_TRUE(w(2).Claim());
  EXPECT_EQ(w(2).claim.slot, w(1).claim.slot);
  EXPECT_NE(w(2).claim.slot, w(0).claim.slot);
}

TEST_F(SyncGateTest, AStepWhoseSlotWasTakenOverDoesNotFreeItWhenItFails) {
  OpenFor(2, 3);
  ASSERT_TRUE(w(1).Claim());
  Step(0);
  gate_->TakeOver();
  w(0).GoOn();
  ASSERT_TRUE(w(0).Claim());
  EXPECT_EQ(w(0).claim.slot, w(1).claim.slot);
  w(1).Fail();
  EXPECT_FALSE(w(2).Claim()) << "another step holds the slot";
}

TEST_F(SyncGateTest, AStepWhoseSlotWasTakenOverIsDroppedUnlessAGradientWasAdded) {
  OpenFor(2, 2);
  Step(0);
  ASSERT_TRUE(w(1).Claim());
  gate_->TakeOver();
  w(0).GoOn();
  Step(0);
  w(1).Finish(/*any_added=*/false);
  EXPECT_TRUE(w(1).was_dropped);
  EXPECT_FALSE(w(0).was_dropped);
  EXPECT_EQ(gate_->state().num_dropped, 1);
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  w(0).GoOn();
  w(1).GoOn();
  Step(0);
  ASSERT_TRUE(w(1).Claim());
  gate_->TakeOver();
  w(1).Finish(/*any_added=*/true);
  EXPECT_FALSE(w(1).was_dropped);
  EXPECT_EQ(gate_->state().num_dropped, 1);
}

TEST_F(SyncGateTest, AStepOfAWorkerWhosePlaceAnotherHasTakenGetsNoSlot) {
  OpenFor(2, 2);
  Step(0);
  ASSERT_TRUE(gate_->Enter("w1", w(1).run, 1, &w(1).step).ok());
  gate_->TakeOver();
  w(0).GoOn();
  Worker other(gate_, "other");
  BeginSession(gate_, other.name, other.run);  // Two workers are expected, so it replaces w1.
  EXPECT_FALSE(w(1).step->ClaimSlot().granted);
  EXPECT_TRUE(other.Claim());
}

TEST_F(SyncGateTest, AStepThatGoesOnDoesNotBringBackAWorkerThatHasLeft) {
  OpenFor(2, 2);
  Step(0);
  ASSERT_TRUE(gate_->Enter("w1", w(1).run, 1, &w(1).step).ok());
  gate_->TakeOver();
  gate_->Leave("w1", w(1).run, /*is_lost=*/false);
  EXPECT_TRUE(w(1).step->ClaimSlot().granted);
  w(1).Fail();
  EXPECT_NE(gate_->Describe().find("left: w1"), std::string::npos) << gate_->Describe();
}

TEST_F(SyncGateTest, ANewWorkerReplacesTheOneWhoseStepEndedFirst) {
  OpenFor(3, 2);
  ASSERT_TRUE(w(0).Claim());
  ASSERT_TRUE(w(1).Claim());
  w(1).step->Done(/*any_added=*/true);
  w(0).step->Done(/*any_added=*/true);
  Worker other(gate_, "other");
  ASSERT_TRUE(other.Claim());
  EXPECT_NE(gate_->Describe().find("between steps: w0"), std::string::npos) << gate_->Describe();
}

// A worker that gives up its wait and tries again makes no progress.
TEST_F(SyncGateTest, AWorkerThatTriesAgainDoesNotPutOffATakeover) {
  OpenFor(2, 2, seconds(20));
  ASSERT_TRUE(w(1).Claim());
  Step(0);
  for (int i = 0; i < 19; ++i) {
    AdvanceClock(seconds(1));
    w(0).wait->Cancel();
    EXPECT_FALSE(w(0).Claim());
    w(0).Finish();
  }
  EXPECT_EQ(gate_->state().num_takeovers, 0);
  AdvanceClock(seconds(1));
  EXPECT_EQ(gate_->state().num_takeovers, 1);
  w(0).GoOn();
}

TEST_F(SyncGateTest, ASlotThatIsClaimedOrCompletedPutsOffATakeover) {
  OpenFor(3, 3, seconds(6));
  ASSERT_TRUE(w(0).Claim());
  Step(2);
  AdvanceClock(seconds(4));
  ASSERT_TRUE(w(1).Claim());
  AdvanceClock(seconds(5));
  EXPECT_EQ(gate_->state().num_takeovers, 0);
  w(0).Finish();
  AdvanceClock(seconds(5));  // 10 s after the last slot was claimed.
  EXPECT_EQ(gate_->state().num_takeovers, 0);
  AdvanceClock(seconds(1));
  EXPECT_TRUE(w(2).wait->has_ended());
  EXPECT_EQ(gate_->state().num_takeovers, 1);
}

TEST_F(SyncGateTest, ANewSessionOfAWorkerEndsTheStepsOfItsOldOne) {
  OpenFor(2, 2);
  Step(0);
  ASSERT_TRUE(w(1).Claim());  // The connection of its session is lost.
  gate_->Leave("w1", RunOf("w1"), /*is_lost=*/true);
  BeginSession(gate_, "w1");
  EXPECT_TRUE(w(0).is_waiting());  // It is back, and is waited for.
  Worker session(gate_, "w1");
  ASSERT_TRUE(session.Claim());
  EXPECT_EQ(session.claim.slot, w(1).claim.slot);
  w(1).Fail();
  session.Finish();
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  session.GoOn();
  EXPECT_TRUE(session.Claim());
  EXPECT_EQ(BeginWait(gate_, For::kOpening, "w1")->code(), StatusCode::kOk);
  Worker third(gate_, "w1");
  third.round = 2;
  EXPECT_TRUE(third.Claim());
}

TEST_F(SyncGateTest, ALateStepOfAnEarlierSessionSaysNothingAboutTheNewOne) {
  OpenFor(3, 2);
  ASSERT_TRUE(w(1).Claim());
  BeginSession(gate_, "w1");
  Worker session(gate_, "w1");
  ASSERT_TRUE(session.Claim());
  session.Fail();
  ASSERT_NE(gate_->Describe().find("lost: w1"), std::string::npos);
  EXPECT_TRUE(w(1).step->Done(false));
  EXPECT_NE(gate_->Describe().find("lost: w1"), std::string::npos);  // It is still lost.

  w(1).round = session.round;
  ASSERT_TRUE(w(1).Claim());
  BeginSession(gate_, "w1");
  w(1).Fail();
  EXPECT_NE(gate_->Describe().find("between steps: w0, w1"), std::string::npos);
}

TEST_F(SyncGateTest, AChiefWhoseRunWasReplacedAsAWorkerEndsNoWaitOfItsSuccessor) {
  const RecordedWaitPtr old = BeginWait(gate_, For::kOpening, "w0", 0, {}, "old");
  const RecordedWaitPtr wait = BeginWait(gate_, For::kOpening, "w0", 0, {}, "new");
  SyncGate::Prepared prepared;
  ASSERT_TRUE(gate_->Prepare({"old"}, 0, /*volunteers=*/false, &prepared, "w0").ok());
  EXPECT_TRUE(prepared.begins);
  EXPECT_FALSE(wait->has_ended());
}

// Both chiefs are the worker w0 as well. The name of a chief is the run of its worker.
TEST_F(SyncGateTest, AChiefThatIsAWorkerTooAndWasReplacedDisturbsNoStepOfItsSuccessor) {
  SyncGate::Options options;
  options.num_workers = options.num_slots = 2;
  const auto open = [&](const std::string& run) {
    SyncGate::Prepared prepared;
    EXPECT_TRUE(gate_->Prepare({run}, 0, /*volunteers=*/false, &prepared, "w0").ok());
    EXPECT_TRUE(gate_->Open({run}, prepared.round, options, /*volunteers=*/false).ok());
    return prepared.round;
  };
  Worker old(gate_, "w0", "old"), successor(gate_, "w0", "successor"), other(gate_, "w1");
  old.round = open("old");
  std::unique_ptr<WorkerStep> late;
  ASSERT_TRUE(gate_->Enter("w0", "old", old.round, &late).ok());
  EXPECT_TRUE(old.Claim());
  successor.round = other.round = open("successor");
  EXPECT_TRUE(successor.Claim());
  EXPECT_TRUE(other.Claim());

  const auto make_late_calls = [&] {
    EXPECT_EQ(BeginWait(gate_, For::kOpening, "w0", 0, {}, "old")->code(),
              StatusCode::kFailedPrecondition);
    gate_->Leave("w0", "old", /*is_lost=*/true);
    SyncGate::Prepared prepared;  // Its queue runner volunteers.
    EXPECT_TRUE(gate_->Prepare({"old"}, 0, /*volunteers=*/true, &prepared, "w0").ok());
    EXPECT_FALSE(prepared.is_chief);
    EXPECT_FALSE(old.Claim());
  };
  make_late_calls();
  EXPECT_FALSE(late->ClaimSlot().granted);
  EXPECT_TRUE(late->Done(/*any_added=*/false));
  successor.Finish();
  EXPECT_FALSE(successor.was_dropped);
  make_late_calls();
  EXPECT_TRUE(successor.is_waiting());
  EXPECT_EQ(gate_->state().num_complete, 1);
  other.Finish();
  EXPECT_TRUE(gate_->Advance({"successor"}, successor.round));
  successor.GoOn();
  EXPECT_TRUE(successor.Claim());

  // Not even if it takes the gate back, in which its steps stay those of a replaced run.
  old.round = open("old");
  EXPECT_FALSE(old.Claim());
  successor.step.reset();
  successor.round = old.round;
  EXPECT_TRUE(successor.Claim());
}

TEST_F(SyncGateTest, AWorkerThatNobodyKnowsIsNotLostIfAllAreKnown) {
  OpenFor(2, 2);
  Step(0);
  Step(1);
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  w(0).GoOn();
  w(1).GoOn();
  gate_->Lose("w7");
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());
}

TEST(SyncGateAbandoned, WithoutWorkersTheWaitOfTheChiefEndsUnlessItIsToWait) {
  for (const bool wait_for_lost : {false, true}) {
    const std::shared_ptr<SyncGate> gate = NewGate();
    int64_t round = 0;
    ASSERT_TRUE(Prepare(gate, {"c"}, 0, &round).ok());
    SyncGate::Options options;
    options.num_slots = options.num_workers = 2;
    options.report = seconds(5);
    options.wait_for_lost = wait_for_lost;
    ASSERT_TRUE(gate->Open({"c"}, round, options, false).ok());
    Worker first(gate, "w0");
    Worker second(gate, "w1");
    ASSERT_TRUE(first.Claim());
    ASSERT_TRUE(second.Claim());
    const RecordedWaitPtr full = BeginWait(gate, For::kFullRound, "c");
    // The round has been logged before the workers are lost.
    AdvanceClock(seconds(20));
    EXPECT_FALSE(full->has_ended());
    first.Fail();
    second.step->Done(true);
    gate->Leave("w1", second.run, /*is_lost=*/false);
    AdvanceClock(seconds(4));
    EXPECT_FALSE(full->has_ended());
    AdvanceClock(seconds(wait_for_lost ? 60 : 1));
    EXPECT_NE(full->has_ended(), wait_for_lost);
    if (wait_for_lost) {
      ASSERT_TRUE(first.Claim());
      first.Finish();
      ASSERT_TRUE(full->has_ended());
      EXPECT_EQ(full->code(), StatusCode::kOk);
    } else {
      EXPECT_EQ(full->code(), StatusCode::kFailedPrecondition);
      EXPECT_NE(full->message().find("lost: w0; left: w1"), std::string::npos) << full->message();
    }
  }
}

// Opens a gate for one worker, whose rounds are given up after a short time.
std::shared_ptr<SyncGate> GateThatGivesUp() {
  std::shared_ptr<SyncGate> gate = NewGate();
  int64_t round = 0;
  EXPECT_TRUE(Prepare(gate, {"c"}, 0, &round).ok());
  SyncGate::Options options;
  options.report = seconds(5);
  EXPECT_TRUE(gate->Open({"c"}, round, options, false).ok());
  return gate;
}

TEST(SyncGateAbandoned, AChiefWaitsForTheFirstWorkerAsLongAsItTakes) {
  const std::shared_ptr<SyncGate> gate = GateThatGivesUp();
  const RecordedWaitPtr full = BeginWait(gate, For::kFullRound, "c");
  AdvanceClock(seconds(30));
  EXPECT_FALSE(full->has_ended());
}

TEST(SyncGateAbandoned, AFullRoundNeedsNoWorker) {
  const std::shared_ptr<SyncGate> gate = GateThatGivesUp();
  const RecordedWaitPtr full = BeginWait(gate, For::kFullRound, "c");
  const RecordedWaitPtr other = BeginWait(gate, For::kFullRound, "d");  // Has prepared nothing.
  Worker worker(gate, "w0");
  ASSERT_TRUE(worker.Claim());
  worker.step->Done(true);
  EXPECT_TRUE(full->has_ended());
  gate->Leave("w0", worker.run, /*is_lost=*/false);
  AdvanceClock(seconds(30));
  EXPECT_FALSE(other->has_ended());
}

}  // namespace
}  // namespace condacc
