#include "cc/core/sync/roster.h"

#include <string>

#include "gtest/gtest.h"

namespace condacc {
namespace {

using Coming = Roster::Coming;
using State = Roster::State;

// A roster of workers "a", "b", ..., each with one run, "1", unless a test names another.
class RosterTest : public testing::Test {
 protected:
  Coming Come(const std::string& name, const std::string& run = "1") {
    return roster_.Come(name, run, kTotal);
  }
  // Begins a step of a worker.
  void Compute(const std::string& name) {
    Come(name);
    Add(name, &Roster::Worker::num_steps, 1);
  }
  void Add(const std::string& name, int Roster::Worker::* number, int count) {
    EXPECT_TRUE(roster_.Add(name, "1", number, count));
  }
  void Leave(const std::string& name, State absence, const std::string& run = "") {
    roster_.Leave(name, run, absence, kTotal);
  }
  int NumPresent() const { return roster_.NumPresent(kTotal); }
  int NumUnseen() const { return roster_.NumUnseen(kTotal); }

  static constexpr int kTotal = 3;

  Roster roster_;
};

TEST_F(RosterTest, RemembersTheLastReplacedRunsAndNoMore) {
  const int num_runs = 3 * static_cast<int>(Roster::kMaxPastRuns);
  for (int run = 0; run < num_runs; ++run) Come("a", std::to_string(run));
  const Roster::Worker& worker = *roster_.Find("a", std::to_string(num_runs - 1));
  EXPECT_EQ(worker.past_runs.size(), Roster::kMaxPastRuns);
  for (int before = 2; before <= 1001; before += 111) {
    EXPECT_EQ(Come("a", std::to_string(num_runs - before)), Coming::kReplaced) << before;
  }
}

TEST_F(RosterTest, AWorkerThatHasLeftIsNotLost) {
  Come("a");
  Leave("a", State::kLeft);
  Leave("a", State::kLost);
  roster_.LoseAllThatAreAbsent();
  EXPECT_EQ(roster_.Names(State::kLeft), "a");
}

TEST_F(RosterTest, ARunThatWasReplacedCannotLeave) {
  Come("a");
  Come("a", "2");
  Leave("a", State::kLeft, "1");
  EXPECT_EQ(roster_.Names(State::kBetweenSteps), "a");
  Leave("a", State::kLost);  // Matches any run.
  EXPECT_EQ(roster_.Names(State::kLost), "a");
}

TEST_F(RosterTest, AWorkerMayBeLostBeforeItIsSeen) {
  Leave("a", State::kLost);
  EXPECT_FALSE(roster_.Knows("a"));
  EXPECT_EQ(NumPresent(), 0);
  EXPECT_EQ(Come("a"), Coming::kSame);
  EXPECT_EQ(NumPresent(), 1);
}

TEST_F(RosterTest, MoreWorkersThanWereToldAllCountWhileTheyAreHere) {
  for (const char* name : {"a", "b", "c", "d"}) Compute(name);
  EXPECT_EQ(NumPresent(), 4);
  EXPECT_EQ(NumUnseen(), 0);
  EXPECT_EQ(roster_.Names(State::kComputing), "a, b, c, d");
  Add("d", &Roster::Worker::num_steps, -1);
  EXPECT_EQ(NumPresent(), 3);
}

TEST_F(RosterTest, ANewNameReplacesOneThatIsGone) {
  for (const char* name : {"a", "b", "c"}) Come(name);
  Leave("b", State::kLost);
  Come("d");
  EXPECT_EQ(roster_.Names(State::kBetweenSteps), "a, c, d");
  EXPECT_EQ(roster_.Names(State::kLost), "");
  EXPECT_EQ(NumPresent(), 3);
}

TEST_F(RosterTest, ANewNameReplacesTheOneBetweenStepsThatWasSeenLeastRecently) {
  for (const char* name : {"a", "b", "c"}) Come(name);
  roster_.See("a", "1", State::kBetweenSteps);
  Come("d");
  EXPECT_EQ(roster_.Names(State::kBetweenSteps), "a, c, d");
  Compute("c");
  Compute("d");
  Come("e");
  EXPECT_EQ(roster_.Names(State::kBetweenSteps), "e");
  EXPECT_EQ(roster_.Names(State::kComputing), "c, d");
}

TEST_F(RosterTest, WhoIsGoneIsForgottenWhileMoreAreKnownThanWereTold) {
  for (const char* name : {"a", "b", "c", "d"}) Compute(name);
  Add("d", &Roster::Worker::num_steps, -1);
  roster_.ForgetReplaced(kTotal);
  Come("a");
  EXPECT_TRUE(roster_.Knows("d")) << "it may come again";
  Leave("d", State::kLost);
  roster_.ForgetReplaced(kTotal);
  EXPECT_FALSE(roster_.Knows("d"));
  EXPECT_TRUE(roster_.Knows("a"));
}

TEST_F(RosterTest, ANewTrainingForgetsAllThatAreAbsent) {
  Compute("a");
  Come("b");
  roster_.LoseAllThatAreAbsent();
  Come("c");
  roster_.ForgetAllThatAreAbsent(/*kept=*/"c");
  EXPECT_TRUE(roster_.Knows("a"));
  EXPECT_FALSE(roster_.Knows("b"));
  EXPECT_TRUE(roster_.Knows("c"));
  roster_.ForgetAllThatAreAbsent();
  EXPECT_FALSE(roster_.Knows("c"));
  EXPECT_EQ(NumPresent(), 1);
}

}  // namespace
}  // namespace condacc
