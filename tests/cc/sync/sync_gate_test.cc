#include "cc/core/sync/sync_gate.h"

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/base/timer_queue.h"
#include "gtest/gtest.h"
#include "tests/cc/sync/sync_gate_support.h"

namespace condacc {
namespace {

using For = GateWait::For;
using std::chrono::seconds;

TEST_F(SyncGateTest, ARoundEndsWhenAllSlotsAreCompleteAndTheChiefAdvances) {
  OpenFor(2, 2);
  const RecordedWaitPtr full = BeginWait(gate_, For::kFullRound, "c");
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());
  EXPECT_FALSE(full->has_ended());
  Step(1);
  ASSERT_TRUE(full->has_ended());
  EXPECT_EQ(full->round(), 1);
  EXPECT_TRUE(w(0).is_waiting());
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
  w(0).GoOn();
  EXPECT_EQ(w(0).round, 2);
  EXPECT_EQ(gate_->state().num_complete, 0);
}

TEST_F(SyncGateTest, ABackupWorkerThatComesLateGetsNoSlot) {
  OpenFor(2, 3);
  Step(0);
  Step(1);
  EXPECT_FALSE(w(2).Claim());
  EXPECT_EQ(w(2).claim.round, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(w(2).claim.slot, 0);
  EXPECT_EQ(gate_->state().num_dropped, 1);
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
  w(2).Finish();
  w(2).GoOn();
  EXPECT_EQ(w(2).round, 2);
}

TEST_F(SyncGateTest, WorkersComputeSeveralGradientsIfThereAreMoreSlotsThanWorkers) {
  OpenFor(5, 2);
  ASSERT_TRUE(w(0).Claim());
  ASSERT_TRUE(w(1).Claim());
  w(0).Finish();
  w(0).GoOn();
  EXPECT_EQ(w(0).round, 1);
  Step(0);
  w(0).GoOn();
  Step(0);
  w(0).GoOn();  // Three of five slots are complete, and the other worker holds one.
  ASSERT_TRUE(w(0).Claim());
  w(1).Finish();
  EXPECT_TRUE(w(1).is_waiting());
  w(0).Finish();
  EXPECT_TRUE(w(0).is_waiting());
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
}

TEST_F(SyncGateTest, TheSlotOfAFailedStepGoesToAWorkerThatWaits) {
  OpenFor(2, 2);
  ASSERT_TRUE(w(1).Claim());
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());
  w(1).Fail();
  w(0).GoOn();
  EXPECT_EQ(w(0).round, 1);
  Step(0);
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
}

TEST_F(SyncGateTest, ALostWorkerThatComesBackIsWaitedForAgain) {
  OpenFor(2, 2);
  ASSERT_TRUE(w(1).Claim());
  w(1).Fail();
  Step(0);
  w(0).GoOn();
  ASSERT_TRUE(w(1).Claim());  // It is back before the other one claims the slot.
  EXPECT_FALSE(w(0).Claim());
  w(0).Finish();
  EXPECT_TRUE(w(0).is_waiting());
  w(1).Finish();
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
}

TEST_F(SyncGateTest, AWorkerThatLeavesIsNotWaitedFor) {
  OpenFor(2, 2);
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());
  gate_->Leave("w1", RunOf("w1"), /*is_lost=*/false);
  w(0).GoOn();
  EXPECT_EQ(w(0).round, 1);
}

TEST_F(SyncGateTest, AWaitThatIsCancelledLosesItsWorker) {
  OpenFor(3, 3);
  Step(0);
  Step(1);
  w(1).wait->Cancel();
  EXPECT_EQ(w(1).wait->code(), StatusCode::kCancelled);
  ASSERT_TRUE(w(2).Claim());
  w(2).Fail();
  w(0).GoOn();
  Step(0);
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
  w(0).GoOn();
  Step(0);
  w(0).GoOn();  // No other worker is left, so it computes all three.
}

TEST_F(SyncGateTest, ACancellationThatComesBeforeTheWaitEndsIt) {
  OpenFor(2, 2);
  RecordedWait wait(gate_, For::kNextRound, "w0", 1);
  wait.Cancel();
  EXPECT_FALSE(wait.has_ended());
  wait.Begin();
  ASSERT_TRUE(wait.has_ended());
  EXPECT_EQ(wait.code(), StatusCode::kCancelled);
}

TEST_F(SyncGateTest, AHolderThatWasTakenOverCompletesItsSlotInTheSameRound) {
  OpenFor(2, 2, kTakeover);
  ASSERT_TRUE(w(1).Claim());
  Step(0);
  AdvanceClock(kTakeover);
  w(0).GoOn();
  ASSERT_TRUE(w(0).Claim());
  EXPECT_EQ(w(0).claim.slot, w(1).claim.slot);
  w(1).Finish();  // Every accumulator has a gradient of its slot now.
  EXPECT_EQ(gate_->state().num_complete, 2);
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
  w(0).Finish();
  EXPECT_EQ(gate_->state().num_complete, 0);
  w(1).GoOn();
}

TEST_F(SyncGateTest, ASilentWorkerIsTakenOverInTime) {
  OpenFor(2, 2, seconds(20));
  ASSERT_TRUE(w(1).Claim());
  Step(0);
  AdvanceClock(seconds(19));
  EXPECT_TRUE(w(0).is_waiting());
  AdvanceClock(seconds(1));
  w(0).GoOn();
  EXPECT_EQ(w(0).round, 1);
  EXPECT_EQ(gate_->state().num_takeovers, 1);
}

TEST_F(SyncGateTest, AWorkerThatHasNeverComeIsNotWaitedForAndHasItsSlotFromTheNextRoundOn) {
  OpenForThatCome(4, 4, 1);
  Step(0);
  w(0).GoOn();
  Step(0);
  w(0).GoOn();
  Step(0);
  w(0).GoOn();
  EXPECT_EQ(w(0).round, 1);
  ASSERT_TRUE(w(0).Claim());  // It holds the last slot when another one comes.
  EXPECT_FALSE(w(1).Claim());
  w(1).Finish();
  EXPECT_TRUE(w(1).is_waiting());
  w(0).Finish();
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  w(0).GoOn();
  w(1).GoOn();
  for (int i = 0; i < 2; ++i) {
    Step(0);
    w(0).GoOn();
  }
  Step(0);
  EXPECT_TRUE(w(0).is_waiting()) << "the last slot is that of the other one";
  Step(1);
  EXPECT_TRUE(gate_->Advance({"c"}, 2));
}

TEST_F(SyncGateTest, AChiefThatCountsItsCreditsWaitsForTheWorkersThatItNeeds) {
  for (const int num_credits : {0, 1}) {
    SCOPED_TRACE(num_credits);
    gate_ = NewGate();
    workers_.clear();
    OpenForThatCome(3, 3, 1, kTakeover);
    ASSERT_TRUE(gate_->AddCredits({"c"}, num_credits).ok());
    if (num_credits == 1) {
      Step(0);
      w(0).GoOn();
    }
    Step(0);
    EXPECT_TRUE(w(0).is_waiting());
    Step(1);
    EXPECT_TRUE(w(0).is_waiting());
    EXPECT_EQ(gate_->state().num_complete, 2 + num_credits);
    if (num_credits == 1) continue;
    const std::string report = gate_->Describe();
    EXPECT_NE(report.find("1 of 3 workers, of which 1 are waited for"), std::string::npos)
        << report;
    AdvanceClock(kTakeover);  // Those that never came count as lost.
    w(0).GoOn();
  }
}

TEST_F(SyncGateTest, AWorkerThatComesWhenTrainingHasEndedWaitsForTheNextOneAndIsThenTold) {
  Open(gate_.get(), 3, 3);
  BeginSession(gate_, "w0");
  ASSERT_TRUE(gate_->Close({"c"}).ok());
  const auto begin_wait = [&](const std::string& worker) {
    return BeginWait(gate_, For::kOpening, worker, 0, /*patience=*/seconds(20));
  };
  const RecordedWaitPtr patient = BeginWait(gate_, For::kOpening, "w3");
  const RecordedWaitPtr known = begin_wait("w0");
  Worker late(gate_, "w1");
  const RecordedWaitPtr opening = begin_wait("w1");
  const RecordedWaitPtr stranger = begin_wait("w2");
  AdvanceClock(seconds(19));
  EXPECT_FALSE(opening->has_ended());
  AdvanceClock(seconds(1));
  ASSERT_TRUE(opening->has_ended());
  EXPECT_EQ(opening->code(), StatusCode::kOk);
  EXPECT_FALSE(late.Claim());
  late.Finish();
  EXPECT_EQ(late.wait->code(), StatusCode::kOutOfRange);
  AdvanceClock(seconds(60));
  EXPECT_FALSE(known->has_ended()) << "it may belong to the next training";
  EXPECT_FALSE(stranger->has_ended()) << "all workers of the training have come";
  EXPECT_FALSE(patient->has_ended()) << "it waits without a limit";
  Open(gate_.get(), 2, 2, "d");
  EXPECT_TRUE(known->has_ended() && stranger->has_ended() && patient->has_ended());
}

TEST_F(SyncGateTest, AWorkerThatComesBetweenTwoTrainingsWaitsForTheOneThatIsPrepared) {
  Open(gate_.get(), 2, 2);
  ASSERT_TRUE(gate_->Close({"c"}).ok());
  const RecordedWaitPtr opening = BeginWait(gate_, For::kOpening, "w0", 0, seconds(20));
  int64_t round = 0;
  ASSERT_TRUE(Prepare(gate_, {"d"}, 0, &round).ok());
  AdvanceClock(seconds(60));
  EXPECT_FALSE(opening->has_ended());
  ASSERT_TRUE(gate_->Open({"d"}, round, SyncGate::Options(), false).ok());
  EXPECT_TRUE(opening->has_ended());
}

TEST_F(SyncGateTest, AWorkerThatComesBeforeTheEndOfATrainingThatNeverBeganWaitsForTheNextOne) {
  int64_t round = Open(gate_.get(), 2, 2);
  ASSERT_TRUE(Prepare(gate_, {"c", 1}, 0, &round).ok());
  const RecordedWaitPtr opening = BeginWait(gate_, For::kOpening, "w0", 0, seconds(5));
  ASSERT_TRUE(gate_->Close({"c", 1}).ok());
  AdvanceClock(seconds(30));
  EXPECT_FALSE(opening->has_ended());
  Open(gate_.get(), 2, 2, "d");
  EXPECT_TRUE(opening->has_ended());
}

TEST_F(SyncGateTest, ListedWorkersAreWaitedForUntilTheyComeButNotForEver) {
  Open(gate_.get(), 2, 2, "c", {}, 0, {"w0", "w1", "w2"}, seconds(20));
  workers_.push_back(std::make_unique<Worker>(gate_, "w0"));
  Step(0);
  EXPECT_TRUE(w(0).is_waiting());
  EXPECT_NE(gate_->Describe().find("of which 1 are waited for"), std::string::npos);
  const auto begin_report = [&](const std::string& run) {
    return BeginWait(gate_, For::kReport, "", /*after=*/7, std::chrono::hours(1), run);
  };
  const RecordedWaitPtr of_chief = begin_report("c");
  const RecordedWaitPtr of_worker = begin_report(w(0).run);
  AdvanceClock(seconds(19));
  EXPECT_TRUE(w(0).is_waiting());
  EXPECT_FALSE(of_chief->has_ended());
  AdvanceClock(seconds(1));
  w(0).GoOn();
  Step(0);
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
  ASSERT_TRUE(of_chief->has_ended());
  EXPECT_EQ(of_chief->report().rfind("no longer for 2 of 3 listed workers (w1, w2), which have not "
                                     "come within 20.0 s",
                                     0),
            0)
      << of_chief->report();
  EXPECT_EQ(of_chief->round(), 7) << "the round has not been reported";
  for (const RecordedWaitPtr& other : {begin_report("c"), begin_report("c")}) {
    EXPECT_FALSE(other->has_ended()) << "it has been said once";
    other->Cancel();
  }
  EXPECT_FALSE(of_worker->has_ended());
  of_worker->Cancel();
}

TEST_F(SyncGateTest, ListedWorkersAreNotWaitedForWithoutATimeForIt) {
  Open(gate_.get(), 2, 2, "c", {}, 0, {"w0", "w1"});
  workers_.push_back(std::make_unique<Worker>(gate_, "w0"));
  Step(0);
  w(0).GoOn();
}

TEST_F(SyncGateTest, OfListedWorkersTheRoundWaitsForAsManyAsItNeeds) {
  Open(gate_.get(), 2, 3, "c", {}, 0, {"w0", "w1", "w2"}, std::chrono::hours(1));
  for (const char* const name : {"w0", "w1"}) {
    workers_.push_back(std::make_unique<Worker>(gate_, name));
    BeginSession(gate_, name);
  }
  Step(0);
  EXPECT_TRUE(w(1).Claim());
  EXPECT_TRUE(w(0).is_waiting());
  w(1).Fail();
  w(0).GoOn();  // The third worker is a backup, so it is not waited for.
}

TEST_F(SyncGateTest, TheChiefIsToldOfWorkersThatHaveNotComeWhenItAsksLater) {
  Open(gate_.get(), 2, 2, "c", {}, 0, {"listed 0", "listed 1"}, seconds(20));
  BeginSession(gate_, "w0");
  AdvanceClock(seconds(20));
  const RecordedWaitPtr report = BeginWait(gate_, For::kReport, "", -1, std::chrono::hours(1), "c");
  ASSERT_TRUE(report->has_ended());
  EXPECT_EQ(report->report().rfind("no longer for 1 of 2 listed workers, which", 0), 0)
      << "the workers have other names: " << report->report();
}

TEST_F(SyncGateTest, AGateThatAVolunteerHasOpenedWithoutTokensWaitsForItsWorkers) {
  SyncGate::Options options;
  options.num_slots = options.num_workers = 2;
  // Tokens may be added before the opening, after it, or not at all.
  for (const int added : {0, 1, 2}) {
    SCOPED_TRACE(added);
    gate_ = NewGate();
    workers_.clear();
    if (added == 0) {
      ASSERT_TRUE(gate_->AddCredits({"v"}, -1).ok());
    }
    SyncGate::Prepared prepared;
    ASSERT_TRUE(gate_->Prepare({"v"}, 0, /*volunteers=*/true, &prepared, "w0").ok());
    ASSERT_TRUE(gate_->Open({"v"}, prepared.round, options, /*volunteers=*/true).ok());
    for (const char* const name : {"w0", "w1"}) {
      workers_.push_back(std::make_unique<Worker>(gate_, name));
    }
    Step(0);
    EXPECT_EQ(w(0).is_waiting(), added > 0);
    EXPECT_TRUE(gate_->AddCredits({"another"}, -1).ok());
    EXPECT_EQ(w(0).is_waiting(), added > 0) << "another chief has added none";
    if (added == 1) {
      ASSERT_TRUE(gate_->AddCredits({"v"}, -1).ok());
    }
    EXPECT_EQ(w(0).is_waiting(), added == 2);
    if (added == 2) Step(1);
  }
}

TEST_F(SyncGateTest, ACreditThatIsSpentLaterCarriesTheRoundInWhichItWasMade) {
  OpenFor(2, 2);
  ASSERT_TRUE(gate_->AddCredits({"c"}, 1).ok());
  for (const int i : {0, 1}) {
    ASSERT_TRUE(w(i).Claim());
    w(i).step->Done(true);
  }
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  w(0).wait = BeginWait(gate_, For::kNextRound, "w0", 1);
  w(0).GoOn();
  EXPECT_EQ(w(0).round, 1);
  EXPECT_FALSE(w(0).Claim());
}

TEST_F(SyncGateTest, BeforeTheOpeningEverybodyWaits) {
  Worker early(gate_, "early");
  EXPECT_FALSE(early.Claim());
  early.Finish();
  const RecordedWaitPtr opening = BeginWait(gate_, For::kOpening, "w0");
  EXPECT_TRUE(early.is_waiting());
  EXPECT_FALSE(opening->has_ended());
  ASSERT_TRUE(gate_->AddCredits({"c"}, 1).ok());
  EXPECT_TRUE(early.is_waiting()) << "credits are for a gate that is open";
  OpenFor(2, 2);
  EXPECT_TRUE(opening->has_ended());
  EXPECT_EQ(opening->round(), 1);
}

TEST_F(SyncGateTest, ARoundAdvancesOnceAndOnlyWhenItIsFull) {
  OpenFor(1, 1);
  EXPECT_FALSE(gate_->Advance({"c"}, 1));
  Step(0);
  EXPECT_FALSE(gate_->Advance({"c"}, 2));
  EXPECT_TRUE(gate_->Advance({"c"}, 1));
  EXPECT_FALSE(gate_->Advance({"c"}, 1));
  EXPECT_EQ(gate_->state().round, 2);
}

TEST_F(SyncGateTest, AWrongNumberOfSlotsIsRefused) {
  int64_t round = 0;
  ASSERT_TRUE(Prepare(gate_, {"c"}, 0, &round).ok());
  SyncGate::Options options;
  options.num_slots = 0;
  EXPECT_EQ(gate_->Open({"c"}, round, options, false).code(), StatusCode::kInvalidArgument);
  options.num_slots = 1;
  options.num_workers = 0;
  EXPECT_EQ(gate_->Open({"c"}, round, options, false).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(gate_->state().open);
}

TEST_F(SyncGateTest, AReportNamesEveryWorker) {
  OpenForThatCome(2, 6, 4);
  ASSERT_TRUE(w(1).Claim());
  ASSERT_TRUE(w(2).Claim());
  w(2).Fail();
  gate_->Leave("w3", RunOf("w3"), /*is_lost=*/false);
  Step(0);
  const RecordedWaitPtr report = BeginWait(gate_, For::kReport, "", -1, seconds(20));
  AdvanceClock(seconds(19));
  EXPECT_FALSE(report->has_ended());
  AdvanceClock(seconds(1));
  ASSERT_TRUE(report->has_ended());
  EXPECT_EQ(report->round(), 1);
  for (const char* part :
       {"round 1 ", "1 of 2 gradients", "computing: w1", "waiting: w0", "lost: w2", "left: w3",
        "never seen: 2 of 6 workers, of which 0 are waited for"}) {
    EXPECT_NE(report->report().find(part), std::string::npos) << report->report();
  }
  // The same round is not reported again.
  const RecordedWaitPtr again = BeginWait(gate_, For::kReport, "", 1, seconds(20));
  const RecordedWaitPtr other = BeginWait(gate_, For::kReport, "", 0, seconds(20));
  AdvanceClock(seconds(20));
  EXPECT_TRUE(other->has_ended());
  EXPECT_FALSE(again->has_ended());
  // But the next one is, once it lasts too long.
  w(1).Finish();
  ASSERT_TRUE(gate_->Advance({"c"}, 1));
  w(0).GoOn();
  Step(0);
  AdvanceClock(seconds(19));
  EXPECT_FALSE(again->has_ended());
  AdvanceClock(seconds(1));
  ASSERT_TRUE(again->has_ended());
  EXPECT_EQ(again->round(), 2);
  EXPECT_NE(again->report().find("round 2 after 20.0 s"), std::string::npos) << again->report();
}

TEST_F(SyncGateTest, AReportTellsWhyTheGateIsNotOpen) {
  const auto tells = [&](const char* why) {
    return gate_->Describe().find(why) != std::string::npos;
  };
  EXPECT_TRUE(tells("no chief has run chief_init_op")) << gate_->Describe();
  SyncGate::Prepared prepared;
  ASSERT_TRUE(gate_->Prepare({"c"}, 0, /*volunteers=*/false, &prepared).ok());
  EXPECT_TRUE(tells("a chief has begun chief_init_op")) << gate_->Describe();
  gate_->Dismiss({"c"});
  EXPECT_TRUE(tells("the chief has ended with an error")) << gate_->Describe();
  ASSERT_TRUE(gate_->Close({"c"}).ok());
  EXPECT_TRUE(tells("training has ended")) << gate_->Describe();
}

TEST_F(SyncGateTest, AReportTellsThatNoChiefTakesTheRound) {
  OpenFor(1, 1);
  Step(0);
  EXPECT_NE(gate_->Describe().find("queue runner has not been started"), std::string::npos);
  EXPECT_TRUE(BeginWait(gate_, For::kFullRound, "c")->has_ended());
  EXPECT_NE(gate_->Describe().find("has not applied them yet"), std::string::npos);
}

TEST(SyncGateLog, ARoundThatLastsTooLongIsLoggedOnce) {
  std::vector<std::string> lines;
  const auto gate = std::make_shared<SyncGate>(
      "gate 'g'", seconds(5), [&](const std::string& line) { lines.push_back(line); });
  const RecordedWaitPtr opening = BeginWait(gate, For::kOpening, "w0");
  AdvanceClock(seconds(4));
  EXPECT_TRUE(lines.empty());
  AdvanceClock(seconds(60));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("is not open after 5.0 s"), std::string::npos) << lines[0];
}

TEST(SyncGateLog, NothingIsLoggedWithoutATimeForIt) {
  int num_lines = 0;
  const auto gate =
      std::make_shared<SyncGate>("g", seconds(0), [&](const std::string&) { ++num_lines; });
  Open(gate.get(), 2, 2, "c", /*takeover=*/seconds(5));
  Worker silent(gate, "w0"), worker(gate, "w1");
  ASSERT_TRUE(silent.Claim());
  ASSERT_TRUE(worker.Claim());
  worker.Finish();
  AdvanceClock(seconds(5));
  EXPECT_EQ(gate->state().num_takeovers, 1);
  EXPECT_EQ(num_lines, 0);
}

TEST(SyncGateLog, NothingIsLoggedWhileNobodyWaits) {
  int num_lines = 0;
  const auto gate =
      std::make_shared<SyncGate>("g", seconds(5), [&](const std::string&) { ++num_lines; });
  SyncGate::Options options;
  options.report = seconds(5);
  options.listed = {"w0"};
  options.start = seconds(10);  // The gate's timer is due then.
  int64_t round = 0;
  ASSERT_TRUE(Prepare(gate, {"c"}, 0, &round).ok());
  ASSERT_TRUE(gate->Open({"c"}, round, options, /*volunteers=*/false).ok());
  AdvanceClock(seconds(60));
  EXPECT_EQ(num_lines, 0);
}

TEST(SyncGateLog, EachRoundIsLoggedAndEndsNoExpectation) {
  int num_lines = 0;
  const auto gate =
      std::make_shared<SyncGate>("gate 'g'", seconds(5), [&](const std::string&) { ++num_lines; });
  const RecordedWaitPtr patient = BeginWait(gate, For::kReport, "", -1, std::chrono::hours(1));
  const RecordedWaitPtr opening = BeginWait(gate, For::kOpening, "w0");
  AdvanceClock(seconds(5));
  EXPECT_EQ(num_lines, 1);
  SyncGate::Options options;
  options.num_slots = options.num_workers = 2;
  options.report = seconds(5);
  options.listed = {"w0", "w1"};
  options.start = std::chrono::hours(1);
  SyncGate::Prepared prepared;
  ASSERT_TRUE(gate->Prepare({"c"}, 0, /*volunteers=*/false, &prepared).ok());
  ASSERT_TRUE(gate->Open({"c"}, prepared.round, options, /*volunteers=*/false).ok());
  Worker worker(gate, "w0");
  ASSERT_TRUE(worker.Claim());
  worker.Finish();
  AdvanceClock(seconds(60));
  EXPECT_EQ(num_lines, 2);
  EXPECT_TRUE(worker.is_waiting()) << "the other worker is still expected";
  EXPECT_FALSE(patient->has_ended()) << "lines are logged, and the report is not due";
  worker.wait->Cancel();
  patient->Cancel();
}

TEST(SyncGateTimer, ThatWasRefusedIsHadByTheNextWait) {
  const std::shared_ptr<SyncGate> gate = NewGate();
  TimerQueue::Global().refuses = true;
  const int64_t round = Open(gate.get(), 2, 3, "c", seconds(5));
  Worker frozen(gate, "frozen");
  Worker worker(gate, "w0");
  frozen.round = worker.round = round;
  ASSERT_TRUE(frozen.Claim());
  ASSERT_TRUE(worker.Claim());
  worker.Finish();
  AdvanceClock(seconds(5));
  EXPECT_TRUE(worker.is_waiting());
  TimerQueue::Global().refuses = false;
  const RecordedWaitPtr report = BeginWait(gate, For::kReport, "", -1, std::chrono::hours(1));
  AdvanceClock({});
  EXPECT_TRUE(worker.wait->has_ended());
  EXPECT_EQ(gate->state().num_takeovers, 1);
}

TEST(SyncGateTimer, AReportWithoutPatienceDoesNotKeepTheTimerBusy) {
  const std::shared_ptr<SyncGate> gate = NewGate();
  Open(gate.get(), 1, 1, "c");
  const RecordedWaitPtr report = BeginWait(gate, For::kReport, "", -1);
  const int num_called = AdvanceClock(seconds(1));
  EXPECT_GT(num_called, 1) << "no worker waits, and the gate looks again and again";
  EXPECT_LE(num_called, 2 * (seconds(1) / SyncGate::kShortestDuration));
}

}  // namespace
}  // namespace condacc
