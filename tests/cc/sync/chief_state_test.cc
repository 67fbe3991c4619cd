#include "cc/core/sync/chief_state.h"

#include "gtest/gtest.h"

namespace condacc {
namespace {

TEST(ChiefState, AGateBelongsToNobodyBeforeItIsPrepared) {
  const ChiefState state;
  EXPECT_FALSE(state.has_been_prepared());
  EXPECT_FALSE(state.Is(""));
  EXPECT_FALSE(state.IsPreparing(""));
}

TEST(ChiefState, AChiefPreparesAndOpensTheGate) {
  ChiefState state;
  state.Prepare("c");
  EXPECT_TRUE(state.has_been_prepared());
  EXPECT_TRUE(state.Is("c"));
  EXPECT_FALSE(state.Is("d"));
  EXPECT_TRUE(state.IsPreparing("c"));
  EXPECT_FALSE(state.IsPreparing("d"));
  EXPECT_FALSE(state.is_open());
  state.Open();
  EXPECT_TRUE(state.is_open());
  EXPECT_TRUE(state.Is("c"));
  EXPECT_FALSE(state.IsPreparing("c"));
}

TEST(ChiefState, AnotherChiefReplacesTheFirstInEachPhase) {
  for (const auto begin : {&ChiefState::Open, &ChiefState::Close, &ChiefState::Dismiss}) {
    ChiefState state;
    state.Prepare("c");
    (state.*begin)();
    state.Prepare("d");
    EXPECT_EQ(state.phase(), ChiefState::Phase::kPreparing);
    EXPECT_TRUE(state.Is("d"));
    EXPECT_FALSE(state.Is("c"));
  }
}

TEST(ChiefState, ATrainingThatHasEndedStaysEnded) {
  ChiefState state;
  state.Prepare("c");
  state.Open();
  state.Dismiss();
  EXPECT_TRUE(state.is_dismissed());
  EXPECT_FALSE(state.is_open());
  state.Close();
  EXPECT_TRUE(state.is_closed());
  state.Dismiss();
  EXPECT_TRUE(state.is_closed());
  EXPECT_FALSE(state.is_dismissed());
}

}  // namespace
}  // namespace condacc
