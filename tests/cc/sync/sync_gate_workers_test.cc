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
  EXPECT_EQ(successor.claim.slot, w(1).claim.slot);
  EXPECT_TRUE(w(0).is_waiting());
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
  OpenFor(2, 3, kTakeover);
  ASSERT_TRUE(w(1).Claim());
  Step(0);
  AdvanceClock(kTakeover);
  w(0).GoOn();
  ASSERT_TRUE(w(0).Claim());
  EXPECT_EQ(w(0).claim.slot, w(1).claim.slot);
  w(1).Fail();
  EXPECT_FALSE(w(2).Claim()) << "another step holds the slot";
}

TEST_F(SyncGateTest, AStepWhoseSlotWasTakenOverIsDroppedUnlessAGradientWasAdded) {
  OpenFor(2, 2, kTakeover);
  Step(0);
  ASSERT_TRUE(w(1).Claim());
  AdvanceClock(kTakeover);
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
  AdvanceClock(kTakeover);
  w(1).Finish(/*any_added=*/true);
  EXPECT_FALSE(w(1).was_dropped);
  EXPECT_EQ(gate_->state().num_dropped, 1);
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

TEST_F(SyncGateTest, AChiefWhoseRunWasReplacedAsAWorkerEndsNoWaitOfItsSuccessor) {
  const RecordedWaitPtr old = BeginWait(gate_, For::kOpening, "w0", 0, {}, "old");
  const RecordedWaitPtr wait = BeginWait(gate_, For::kOpening, "w0", 0, {}, "new");
  SyncGate::Prepared prepared;
  ASSERT_TRUE(gate_->Prepare({"old"}, 0, /*volunteers=*/false, &prepared, "w0").ok());
  EXPECT_TRUE(prepared.begins);
  EXPECT_FALSE(wait->has_ended());
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
      EXPECT_EQ(full->message().find(gate->where()), std::string::npos) << "the op adds the name";
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
