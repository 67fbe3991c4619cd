#include "cc/core/sync/chief_state.h"

#include "gtest/gtest.h"

namespace condacc {
namespace {

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

TEST(ChiefState, AnybodyCanBeDismissed) {
  ChiefState state;
  state.Dismiss({"idle", 1});
  EXPECT_TRUE(state.WasDismissed({"idle", 1}));
  EXPECT_FALSE(state.WasDismissed({"idle", 2}));
  EXPECT_FALSE(state.is_dismissed());
  state.Prepare({"idle", 1}, false);
  EXPECT_FALSE(state.WasDismissed({"idle", 1}));
}

}  // namespace
}  // namespace condacc
