// Chiefs at a gate, and chiefs that were replaced.
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/sync/sync_gate.h"
#include "gtest/gtest.h"
#include "tests/cc/sync/sync_gate_support.h"

namespace condacc {
namespace {

using For = GateWait::For;

TEST_F(SyncGateTest, AnOpeningIsAboveAllRoundsSoFar) {
  EXPECT_EQ(Open(gate_.get(), 1, 1, "c", {}, 41), 42);
  EXPECT_EQ(Open(gate_.get(), 1, 1, "d", {}, 7), 43);
  int64_t round = 0;
  EXPECT_EQ(Prepare(gate_, {"c"}, std::numeric_limits<int64_t>::max(), &round).code(),
            StatusCode::kOutOfRange);
  EXPECT_TRUE(gate_->state().open);
}

TEST_F(SyncGateTest, AnOpeningEndsTheRoundOfTheLastChief) {
  OpenFor(2, 2);
  const RecordedWaitPtr old_full = BeginWait(gate_, For::kFullRound, "c");
  ASSERT_TRUE(w(1).Claim());
  Step(0);
  int64_t round = 0;
  ASSERT_TRUE(Prepare(gate_, {"d"}, 0, &round).ok());
  EXPECT_EQ(old_full->code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(w(0).is_waiting());
  EXPECT_FALSE(gate_->Advance({"c"}, 1));
  SyncGate::Options options;
  options.num_slots = options.num_workers = 2;
  EXPECT_EQ(gate_->Open({"c"}, 1, options, false).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(gate_->Open({"c"}, round, options, false).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(gate_->Open({"d"}, round, options, false).ok());
  w(0).GoOn();
  EXPECT_EQ(w(0).round, 2);
  w(1).Finish();  // Its slot was one of the old round.
  EXPECT_EQ(gate_->state().num_complete, 0);
  EXPECT_FALSE(gate_->Advance({"c"}, 1));
}

TEST_F(SyncGateTest, StepsOfAnEarlierOpeningDoNothingToASlotThatThereMayNotBeAnyMore) {
  OpenFor(3, 3);
  for (const int i : {0, 1, 2}) ASSERT_TRUE(w(i).Claim());
  Open(gate_.get(), 1, 3, "d");
  w(1).Fail();
  w(2).Finish();
  EXPECT_EQ(gate_->state().num_complete, 0);
  w(1).round = 2;
  EXPECT_TRUE(w(1).Claim());
  w(0).Fail();
  w(0).round = 2;
  EXPECT_FALSE(w(0).Claim()) << "the only slot is that of another step";
}

TEST_F(SyncGateTest, CreditsFromBeforeTheOpeningHaveNoEffect) {
  SyncGate::Options options;
  options.num_slots = options.num_workers = 2;
  for (const int num_come : {1, 2}) {
    gate_ = NewGate();
    workers_.clear();
    int64_t round = 0;
    ASSERT_TRUE(Prepare(gate_, {"c"}, 0, &round).ok());
    // For two workers that have come, there would be credits left; one would wait for the other.
    ASSERT_TRUE(gate_->AddCredits({"c"}, num_come == 2 ? 2 : 0).ok());
    ASSERT_TRUE(gate_->Open({"c"}, round, options, false).ok());
    for (const char* const name : {"w0", "w1"}) {
      workers_.push_back(std::make_unique<Worker>(gate_, name));
    }
    if (num_come == 2) BeginSession(gate_, "w1", w(1).run);
    Step(0);
    EXPECT_EQ(w(0).is_waiting(), num_come == 2);
    if (num_come == 2) Step(1);
  }
}

TEST_F(SyncGateTest, AClosedGateEndsAllWaitsUntilItIsOpenedAgain) {
  OpenFor(2, 2);
  const RecordedWaitPtr full = BeginWait(gate_, For::kFullRound, "c");
  Step(0);
  ASSERT_TRUE(gate_->Close({"c"}).ok());
  EXPECT_EQ(w(0).wait->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(full->code(), StatusCode::kOutOfRange);
  EXPECT_FALSE(w(1).Claim());
  const RecordedWaitPtr opening = BeginWait(gate_, For::kOpening, "w0");
  EXPECT_FALSE(opening->has_ended());
  w(0).round = Open(gate_.get(), 1, 1);
  EXPECT_TRUE(opening->has_ended());
  EXPECT_TRUE(w(0).Claim());
}

TEST_F(SyncGateTest, ATrainingDoesNotWaitForWorkersOfTheOneThatHasEnded) {
  for (const bool is_in_step : {false, true}) {
    gate_ = NewGate();
    workers_.clear();
    OpenFor(2, 2);
    if (is_in_step) {
      ASSERT_TRUE(w(1).Claim());
    }
    ASSERT_TRUE(gate_->Close({"c"}).ok());
    w(0).round = Open(gate_.get(), 2, 2, "d");
    Step(0);
    w(0).GoOn();
    EXPECT_EQ(w(0).round, 2) << "it computes the other gradient of the round as well";
  }
}

TEST_F(SyncGateTest, ARoundWaitsForAChiefThatMayBeSavingACheckpoint) {
  for (const bool has_backups : {false, true}) {
    for (const bool goes_on : {false, true}) {
      gate_ = NewGate();
      workers_.clear();
      OpenFor(has_backups ? 1 : 2, 2, kTakeover);
      w(0).run = "c";  // It is in the chief's process.
      Step(0);
      if (!has_backups) Step(1);
      ASSERT_TRUE(gate_->Advance({"c"}, 1));
      w(0).GoOn();
      w(1).round = 2;
      Step(1);
      AdvanceClock(kTakeover);
      if (!has_backups) {
        w(1).GoOn();
        Step(1);  // The gradient of the chief's process.
      }
      const RecordedWaitPtr full = BeginWait(gate_, For::kFullRound, "c");
      EXPECT_EQ(full->has_ended(), has_backups);
      if (goes_on) {
        EXPECT_FALSE(w(0).Claim());
      } else {
        gate_->Leave("w0", "c", /*is_lost=*/false);
      }
      EXPECT_TRUE(full->has_ended());
      EXPECT_EQ(full->code(), StatusCode::kOk);
    }
  }
}

TEST_F(SyncGateTest, ADismissedChiefEndsAndWorkersWaitOn) {
  OpenFor(3, 3);
  w(0).run = "c";  // It is in the chief's process.
  Step(0);
  Step(1);
  gate_->Dismiss({"another"});
  const RecordedWaitPtr full = BeginWait(gate_, For::kFullRound, "c");
  EXPECT_FALSE(full->has_ended());
  gate_->Dismiss({"c"});
  EXPECT_EQ(full->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(BeginWait(gate_, For::kFullRound, "c")->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(w(0).wait->code(), StatusCode::kCancelled);
  EXPECT_TRUE(w(1).is_waiting());
  // A wait of the chief's process that begins later ends as well.
  EXPECT_EQ(BeginWait(gate_, For::kNextRound, "w0", 1, {}, "c")->code(), StatusCode::kCancelled);
  w(0).round = Open(gate_.get(), 3, 3);
  EXPECT_FALSE(w(1).is_waiting());
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());
}

// The operations of chief "c" in round 1, by their names.
std::vector<std::pair<std::string, std::function<void(SyncGate*)>>> OperationsOfC() {
  SyncGate::Options options;
  options.num_slots = options.num_workers = 2;
  return {
      {"Open", [=](SyncGate* gate) { EXPECT_FALSE(gate->Open({"c"}, 1, options, false).ok()); }},
      {"Open of the present round",
       [=](SyncGate* gate) {
         EXPECT_FALSE(gate->Open({"c"}, gate->state().round, options, false).ok());
       }},
      {"AddCredits", [](SyncGate* gate) { EXPECT_FALSE(gate->AddCredits({"c"}, 5).ok()); }},
      {"Advance", [](SyncGate* gate) { EXPECT_FALSE(gate->Advance({"c"}, 1)); }},
      {"Advance of the present round",
       [](SyncGate* gate) { EXPECT_FALSE(gate->Advance({"c"}, gate->state().round)); }},
      {"Dismiss", [](SyncGate* gate) { gate->Dismiss({"c"}); }},
      {"Close",
       [](SyncGate* gate) {
         EXPECT_EQ(gate->Close({"c"}).code(), StatusCode::kFailedPrecondition);
       }},
  };
}

// At each point of its successor's training, a chief that was replaced executes each operation.
TEST_F(SyncGateTest, AChiefThatWasReplacedDoesNothingToItsSuccessor) {
  for (const auto& [name, operation] : OperationsOfC()) {
    SCOPED_TRACE(name);
    gate_ = NewGate();
    workers_.clear();
    OpenFor(2, 2);
    Step(0);
    int64_t round = 0;
    ASSERT_TRUE(Prepare(gate_, {"d"}, 0, &round).ok());
    operation(gate_.get());
    SyncGate::Options options;
    options.num_slots = options.num_workers = 2;
    ASSERT_TRUE(gate_->Open({"d"}, round, options, false).ok());
    operation(gate_.get());
    w(0).GoOn();
    w(1).round = round;
    Step(0);
    operation(gate_.get());
    EXPECT_TRUE(w(0).is_waiting());
    Step(1);
    operation(gate_.get());
    EXPECT_TRUE(BeginWait(gate_, For::kFullRound, "d")->has_ended());
    EXPECT_EQ(BeginWait(gate_, For::kFullRound, "c")->code(), StatusCode::kFailedPrecondition);
    ASSERT_TRUE(gate_->Advance({"d"}, round));
    w(0).GoOn();
    w(1).GoOn();
    Step(0);
    gate_->Dismiss({"d"});
    operation(gate_.get());
    EXPECT_TRUE(w(0).is_waiting());
    ASSERT_TRUE(gate_->Close({"d"}).ok());
    operation(gate_.get());
    EXPECT_EQ(w(0).wait->code(), StatusCode::kOutOfRange);
  }
}

TEST_F(SyncGateTest, AChiefEndsItsTrainingAlsoBeforeTheOpeningAndAfterADismissal) {
  int64_t round = 0;
  EXPECT_EQ(gate_->Close({"c"}).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Prepare(gate_, {"c"}, 0, &round).ok());
  ASSERT_TRUE(gate_->Close({"c"}).ok());
  EXPECT_EQ(BeginWait(gate_, For::kFullRound, "c")->code(), StatusCode::kOutOfRange);
  OpenFor(2, 2);
  Step(0);
  gate_->Dismiss({"c"});
  EXPECT_TRUE(w(0).is_waiting());
  ASSERT_TRUE(gate_->Close({"c"}).ok());
  EXPECT_EQ(w(0).wait->code(), StatusCode::kOutOfRange);
  gate_->Dismiss({"c"});  // It does not shut a gate that is closed.
  EXPECT_EQ(BeginWait(gate_, For::kNextRound, "w1", 1)->code(), StatusCode::kOutOfRange);
}

TEST_F(SyncGateTest, ANewSessionOfAChiefEndsTheWaitsOfItsOldOneAndItsRound) {
  OpenFor(1, 1);
  const RecordedWaitPtr old_full = BeginWait(gate_, For::kFullRound, "c", 0, {}, "", 0);
  int64_t round = 0;
  ASSERT_TRUE(Prepare(gate_, {"c", 1}, 0, &round).ok());
  EXPECT_EQ(round, 2);
  EXPECT_EQ(old_full->code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(gate_->Close({"c", 0}).code(), StatusCode::kFailedPrecondition);
  gate_->Dismiss({"c", 0});
  SyncGate::Options options;
  EXPECT_FALSE(gate_->Open({"c", 0}, round, options, false).ok());
  EXPECT_TRUE(gate_->Open({"c", 1}, round, options, false).ok());
}

TEST_F(SyncGateTest, ASecondPreparationInOneSessionGoesOnInTheRunningRound) {
  OpenFor(2, 2);
  const RecordedWaitPtr full = BeginWait(gate_, For::kFullRound, "c");
  Step(0);
  SyncGate::Options options;  // They are those of one worker, and have no effect.
  for (const bool volunteers : {false, true}) {
    SyncGate::Prepared prepared;
    ASSERT_TRUE(gate_->Prepare({"c"}, 7, volunteers, &prepared).ok());
    EXPECT_EQ(prepared.round, 1);
    EXPECT_TRUE(prepared.is_chief);
    EXPECT_FALSE(prepared.begins);
    ASSERT_TRUE(gate_->Open({"c"}, prepared.round, options, volunteers).ok());
  }
  EXPECT_TRUE(w(0).is_waiting());
  Step(1);
  EXPECT_EQ(full->code(), StatusCode::kOk);
  int64_t round = 0;
  ASSERT_TRUE(Prepare(gate_, {"c"}, 0, &round).ok());
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  ASSERT_TRUE(gate_->Open({"c"}, round, options, false).ok());  // The round has ended meanwhile.
  EXPECT_EQ(gate_->state().round, 2);
  gate_->Dismiss({"c"});
  ASSERT_TRUE(Prepare(gate_, {"c"}, 0, &round).ok());
  EXPECT_EQ(round, 3) << "a chief that was dismissed begins anew";
}

TEST_F(SyncGateTest, TwoPreparationsOfOneSessionAtOnceOpenTheGateOnce) {
  int64_t first = 0;
  int64_t second = 0;
  ASSERT_TRUE(Prepare(gate_, {"c"}, 3, &first).ok());
  ASSERT_TRUE(Prepare(gate_, {"c"}, 4, &second).ok());  // Accumulators are at the round already.
  EXPECT_EQ(first, 4);
  EXPECT_EQ(second, 4);
  SyncGate::Options options;
  ASSERT_TRUE(gate_->Open({"c"}, first, options, false).ok());
  ASSERT_TRUE(gate_->Open({"c"}, second, options, false).ok());
  EXPECT_EQ(gate_->state().round, 4);
}

TEST_F(SyncGateTest, AChiefThatHasNotPreparedTheGateWaitsUntilItHas) {
  const RecordedWaitPtr idle = BeginWait(gate_, For::kFullRound, "another");
  const RecordedWaitPtr early = BeginWait(gate_, For::kFullRound, "c");
  EXPECT_FALSE(early->has_ended());
  OpenFor(1, 1);
  Step(0);
  EXPECT_EQ(early->code(), StatusCode::kOk);
  EXPECT_EQ(early->round(), 1);
  EXPECT_FALSE(idle->has_ended());
  EXPECT_FALSE(gate_->Advance({"another"}, 1));
  EXPECT_FALSE(gate_->Close({"another"}).ok());
  ASSERT_TRUE(gate_->Close({"c"}).ok());
  EXPECT_FALSE(idle->has_ended());
  gate_->Dismiss({"another"});
  EXPECT_EQ(idle->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(BeginWait(gate_, For::kFullRound, "another")->code(), StatusCode::kOutOfRange);
}

TEST_F(SyncGateTest, ADeputyTakesTheRoundsOfAChiefThatHasNotComeItself) {
  OpenFor(1, 1);
  const RecordedWaitPtr first = BeginWait(gate_, For::kFullRound, "first");
  const RecordedWaitPtr second = BeginWait(gate_, For::kFullRound, "second");
  Step(0);
  EXPECT_EQ(first->code(), StatusCode::kOk);
  ASSERT_TRUE(first->has_ended());
  EXPECT_FALSE(second->has_ended());
  const RecordedWaitPtr chief = BeginWait(gate_, For::kFullRound, "c");
  EXPECT_FALSE(chief->has_ended()) << "the deputy has the round";
  EXPECT_TRUE(gate_->Advance({"first"}, 1));
  EXPECT_FALSE(gate_->Advance({"first"}, 2));
  w(0).GoOn();
  Step(0);
  EXPECT_TRUE(chief->has_ended());
  EXPECT_FALSE(second->has_ended()) << "the chief has come";
  EXPECT_FALSE(gate_->Advance({"second"}, 2));
  EXPECT_TRUE(gate_->Advance({"c"}, 2));
}

TEST_F(SyncGateTest, AChiefThatWaitsBeforeItPreparesHasNoDeputy) {
  for (const bool has_come : {false, true}) {
    gate_ = NewGate();
    workers_.clear();
    const RecordedWaitPtr other = BeginWait(gate_, For::kFullRound, "v");
    RecordedWaitPtr own;
    if (has_come) own = BeginWait(gate_, For::kFullRound, "c");
    OpenFor(1, 1);
    Step(0);
    EXPECT_NE(other->has_ended(), has_come);
    EXPECT_TRUE(!has_come || own->has_ended());
  }
}

TEST_F(SyncGateTest, AChiefThatWasReplacedIsNoDeputy) {
  OpenFor(1, 1);
  int64_t round = Open(gate_.get(), 1, 1, "d");
  w(0).round = round;
  Step(0);
  EXPECT_EQ(BeginWait(gate_, For::kFullRound, "c")->code(), StatusCode::kFailedPrecondition);
  const RecordedWaitPtr deputy = BeginWait(gate_, For::kFullRound, "deputy");
  ASSERT_TRUE(deputy->has_ended());
  EXPECT_FALSE(gate_->Advance({"c"}, round));
  EXPECT_TRUE(gate_->Advance({"deputy"}, round));
}

TEST_F(SyncGateTest, AVolunteerGivesWayToAChief) {
  SyncGate::Options options;
  SyncGate::Prepared prepared;
  ASSERT_TRUE(gate_->Prepare({"v"}, 0, /*volunteers=*/true, &prepared).ok());
  ASSERT_TRUE(prepared.is_chief);
  ASSERT_TRUE(gate_->Open({"v"}, prepared.round, options, true).ok());
  const RecordedWaitPtr volunteer = BeginWait(gate_, For::kFullRound, "v");
  SyncGate::Prepared second;
  ASSERT_TRUE(gate_->Prepare({"w"}, 0, /*volunteers=*/true, &second).ok());
  EXPECT_FALSE(second.is_chief);
  EXPECT_EQ(second.round, prepared.round);
  ASSERT_TRUE(gate_->Open({"w"}, second.round, options, true).ok());
  OpenFor(1, 1);  // By the chief.
  const RecordedWaitPtr chief = BeginWait(gate_, For::kFullRound, "c");
  Step(0);
  EXPECT_FALSE(volunteer->has_ended());
  EXPECT_TRUE(chief->has_ended());
  // The volunteer had taken the last round.
  EXPECT_FALSE(gate_->Advance({"v"}, prepared.round));
  EXPECT_FALSE(gate_->Open({"v"}, prepared.round, options, false).ok());
  EXPECT_TRUE(gate_->Open({"v"}, prepared.round, options, true).ok());
  EXPECT_FALSE(BeginWait(gate_, For::kFullRound, "v")->has_ended());
}

TEST_F(SyncGateTest, AVolunteerTakesTheGateOfOneWhoseProcessHasEnded) {
  SyncGate::Prepared prepared;
  SyncGate::Options options;
  ASSERT_TRUE(gate_->Prepare({"v"}, 0, true, &prepared).ok());
  ASSERT_TRUE(gate_->Open({"v"}, prepared.round, options, true).ok());
  const RecordedWaitPtr lost = BeginWait(gate_, For::kFullRound, "v");
  const RecordedWaitPtr other = BeginWait(gate_, For::kFullRound, "another");
  for (const bool is_lost : {false, true}) {
    (is_lost ? lost : other)->Cancel();
    ASSERT_TRUE(gate_->Prepare({"w"}, 0, true, &prepared).ok());
    EXPECT_EQ(prepared.is_chief, is_lost);
    EXPECT_EQ(prepared.round, is_lost ? 2 : 1);
  }
}

TEST_F(SyncGateTest, ADismissalEndsTheReportsOfItsSession) {
  OpenFor(2, 2);
  const auto hours = std::chrono::hours(1);
  const RecordedWaitPtr own = BeginWait(gate_, For::kReport, "", -1, hours, "run", 1);
  const RecordedWaitPtr other = BeginWait(gate_, For::kReport, "", -1, hours, "run", 2);
  gate_->Dismiss({"run", 1});
  EXPECT_EQ(own->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(BeginWait(gate_, For::kReport, "", -1, hours, "run", 1)->code(),
            StatusCode::kOutOfRange);
  EXPECT_FALSE(other->has_ended());
  other->Cancel();
}

TEST_F(SyncGateTest, MoreCreditsThanANumberCanHoldAreNotAnOverflow) {
  OpenFor(2, 2);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  ASSERT_TRUE(gate_->AddCredits({"c"}, kMost).ok());
  ASSERT_TRUE(gate_->AddCredits({"c"}, kMost).ok());
  Step(0);
  w(0).GoOn();
}

}  // namespace
}  // namespace condacc
