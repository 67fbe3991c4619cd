#include "cc/core/sync/chief_state.h"

#include <functional>

#include "gtest/gtest.h"

namespace condacc {
namespace {

TEST(ChiefState, AGateBelongsToNobodyBeforeItIsPrepared) {
  const ChiefState state;
  EXPECT_FALSE(state.has_been_prepared());
  EXPECT_FALSE(state.Is({""}));
  EXPECT_FALSE(state.IsPreparing({""}));
}

TEST(ChiefState, AChiefPreparesAndOpensTheGate) {
  ChiefState state;
  state.Prepare({"c"}, false);
  EXPECT_TRUE(state.has_been_prepared());
  EXPECT_TRUE(state.Is({"c"}));
  EXPECT_FALSE(state.Is({"d"}));
  EXPECT_TRUE(state.IsPreparing({"c"}));
  EXPECT_FALSE(state.IsPreparing({"d"}));
  EXPECT_FALSE(state.is_open());
  state.Open();
  EXPECT_TRUE(state.is_open());
  EXPECT_TRUE(state.Is({"c"}));
  EXPECT_FALSE(state.IsPreparing({"c"}));
}

TEST(ChiefState, AnotherChiefReplacesTheFirstInEachPhase) {
  const std::function<void(ChiefState*)> ends[] = {
      [](ChiefState* state) { state->Open(); },
      [](ChiefState* state) { state->Close(); },
      [](ChiefState* state) { state->Dismiss({"c"}); },
  };
  for (const auto& end : ends) {
    ChiefState state;
    state.Prepare({"c"}, false);
    end(&state);
    state.Prepare({"d"}, false);
    EXPECT_EQ(state.phase(), ChiefState::Phase::kPreparing);
    EXPECT_TRUE(state.Is({"d"}));
    EXPECT_FALSE(state.Is({"c"}));
    EXPECT_TRUE(state.WasReplaced({"c"}));
    EXPECT_FALSE(state.WasDismissed({"d"}));
    state.Prepare({"c"}, false);
    EXPECT_TRUE(state.Is({"c"}));
    EXPECT_TRUE(state.WasReplaced({"d"}));
  }
}

TEST(ChiefState, ASessionOfAChiefReplacesAnEarlierOne) {
  ChiefState state;
  state.Prepare({"c", 1}, false);
  EXPECT_TRUE(state.GoesOn({"c", 1}, false));
  EXPECT_FALSE(state.GoesOn({"c", 2}, false));
  EXPECT_TRUE(state.Is({"c", 2})) << "it acts for session 1";
  state.Prepare({"c", 2}, false);
  EXPECT_TRUE(state.WasReplaced({"c", 1}));
  EXPECT_FALSE(state.Is({"c", 1}));
}

TEST(ChiefState, AVolunteerTakesTheGateOnlyIfNobodyElseHasIt) {
  ChiefState state;
  EXPECT_TRUE(state.MayVolunteer({"v"}));
  state.Prepare({"v"}, true);
  EXPECT_TRUE(state.MayVolunteer({"w"})) << "the other may have died before the opening";
  state.Open();
  EXPECT_FALSE(state.MayVolunteer({"w"}));
  state.SetGone(true);
  EXPECT_TRUE(state.MayVolunteer({"w"}));
  state.Prepare({"w"}, true);
  state.Open();
  EXPECT_FALSE(state.MayVolunteer({"v"})) << "this one is not gone";
  state.Prepare({"c"}, false);
  EXPECT_FALSE(state.WasReplaced({"v"}) || state.WasReplaced({"w"})) << "they wait beside it";
  state.Open();
  for (const bool is_gone : {false, true}) {
    state.SetGone(is_gone);
    EXPECT_FALSE(state.MayVolunteer({"w"}));
  }
  EXPECT_TRUE(state.MayVolunteer({"c", 7})) << "its next session";
  state.Prepare({"c", 7}, true);
  state.Open();
  state.SetGone(true);
  EXPECT_FALSE(state.MayVolunteer({"w"})) << "a chief stays one in its next session";
  EXPECT_FALSE(state.MayVolunteer({"c", 0})) << "a late call of an earlier session";
}

TEST(ChiefState, RemembersTheLastReplacedChiefsAndNoMore) {
  ChiefState state;
  const auto session = [](size_t number) { return static_cast<int64_t>(number); };
  for (size_t i = 0; i <= ChiefState::kMaxRemembered + 1; ++i) {
    state.Prepare({"c", session(i)}, false);
  }
  EXPECT_FALSE(state.WasReplaced({"c", 0}));
  EXPECT_TRUE(state.WasReplaced({"c", 1}));
  EXPECT_TRUE(state.WasReplaced({"c", session(ChiefState::kMaxRemembered)}));
}

TEST(ChiefState, AChiefThatIsDismissedManyTimesMakesTheStateForgetNobody) {
  ChiefState state;
  state.Dismiss({"a"});
  for (size_t i = 0; i <= ChiefState::kMaxRemembered; ++i) state.Dismiss({"b"});
  EXPECT_TRUE(state.WasDismissed({"a"}));
  EXPECT_TRUE(state.WasDismissed({"b"}));
}

TEST(ChiefState, AVolunteerMayPrepareAgainInItsNextSessionAndAfterItsTraining) {
  for (const bool closes : {false, true}) {
    ChiefState state;
    state.Prepare({"v", 1}, true);
    if (closes) state.Close();
    ASSERT_TRUE(state.MayVolunteer({"v", 2}));
    state.Prepare({"v", 2}, true);
    EXPECT_TRUE(state.IsPreparing({"v", 2}));
    EXPECT_TRUE(state.WasReplaced({"v", 1}));
    if (closes) state.Close();
    ASSERT_TRUE(state.MayVolunteer({"w"}));
    state.Prepare({"w"}, true);
    EXPECT_TRUE(state.IsPreparing({"w"}));
  }
}

TEST(ChiefState, AVolunteerThatBecomesTheChiefBeginsAnew) {
  ChiefState state;
  state.Prepare({"c"}, true);
  state.Open();
  EXPECT_TRUE(state.GoesOn({"c"}, true));
  EXPECT_FALSE(state.GoesOn({"c"}, false));
  state.Prepare({"c"}, false);
  state.Open();
  EXPECT_TRUE(state.GoesOn({"c"}, true));
  EXPECT_TRUE(state.GoesOn({"c"}, false));
}

TEST(ChiefState, AnybodyCanBeDismissed) {
  ChiefState state;
  state.Dismiss({"idle", 1});
  EXPECT_TRUE(state.WasDismissed({"idle", 1}));
  EXPECT_FALSE(state.WasDismissed({"idle", 2}));
  EXPECT_FALSE(state.is_dismissed());
  state.Prepare({"idle", 1}, false);
  EXPECT_FALSE(state.WasDismissed({"idle", 1}));
}

TEST(ChiefState, ATrainingThatHasEndedStaysEnded) {
  ChiefState state;
  state.Prepare({"c"}, false);
  state.Open();
  state.Dismiss({"c"});
  EXPECT_TRUE(state.is_dismissed());
  EXPECT_FALSE(state.is_open());
  state.Close();
  EXPECT_TRUE(state.is_closed());
  state.Dismiss({"c"});
  EXPECT_TRUE(state.is_closed());
  EXPECT_FALSE(state.is_dismissed());
}

}  // namespace
}  // namespace condacc
