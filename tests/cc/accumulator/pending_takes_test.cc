#include "cc/core/accumulator/pending_takes.h"

#include <memory>

#include "gtest/gtest.h"

namespace condacc {
namespace {

using Take = PendingTake<int>;
using TakePtr = std::shared_ptr<Take>;

TakePtr NewTake() { return std::make_shared<Take>(1, nullptr); }

TEST(PendingTakes, StartEmpty) {
  PendingTakes<int> takes;
  EXPECT_TRUE(takes.empty());
}

TEST(PendingTakes, LeaveInTheOrderInWhichTheyCame) {
  PendingTakes<int> takes;
  const TakePtr a = NewTake(), b = NewTake(), c = NewTake();
  for (const TakePtr& take : {a, b, c}) takes.Push(take);
  EXPECT_EQ(takes.front(), a);
  EXPECT_EQ(takes.PopFront(), a);
  EXPECT_EQ(takes.PopFront(), b);
  EXPECT_EQ(takes.PopFront(), c);
  EXPECT_TRUE(takes.empty());
}

TEST(PendingTakes, KnowWhichTakesWait) {
  PendingTakes<int> takes;
  const TakePtr popped = NewTake(), removed = NewTake();
  EXPECT_FALSE(popped->waiting);
  takes.Push(popped);
  takes.Push(removed);
  EXPECT_TRUE(popped->waiting);
  takes.PopFront();
  takes.Remove(removed);
  EXPECT_FALSE(popped->waiting);
  EXPECT_FALSE(removed->waiting);
}

TEST(PendingTakes, AnyOfThemCanLeaveEarly) {
  for (int leaving = 0; leaving < 3; ++leaving) {
    PendingTakes<int> takes;
    const TakePtr all[] = {NewTake(), NewTake(), NewTake()};
    for (const TakePtr& take : all) takes.Push(take);
    EXPECT_TRUE(takes.Remove(all[leaving]));
    for (int i = 0; i < 3; ++i) {
      if (i != leaving) {
        EXPECT_EQ(takes.PopFront(), all[i]);
      }
    }
    EXPECT_TRUE(takes.empty());
  }
}

TEST(PendingTakes, RemovingOneThatDoesNotWaitDoesNothing) {
  PendingTakes<int> takes;
  const TakePtr never = NewTake(), popped = NewTake(), removed = NewTake(), stays = NewTake();
  for (const TakePtr& take : {popped, removed, stays}) takes.Push(take);
  takes.PopFront();
  EXPECT_TRUE(takes.Remove(removed));
  for (const TakePtr& take : {never, popped, removed}) EXPECT_FALSE(takes.Remove(take));
  EXPECT_EQ(takes.front(), stays);
}

TEST(PendingTakes, OneThatLeftCanComeBackAtTheEnd) {
  PendingTakes<int> takes;
  const TakePtr back = NewTake(), other = NewTake();
  takes.Push(back);
  takes.Push(other);
  takes.Remove(back);
  takes.Push(back);
  EXPECT_EQ(takes.PopFront(), other);
  EXPECT_EQ(takes.PopFront(), back);
}

TEST(PendingTakes, KeepTheirTakesOnlyWhileTheyWait) {
  PendingTakes<int> takes;
  std::weak_ptr<Take> watched;
  {
    const TakePtr take = NewTake();
    watched = take;
    takes.Push(take);
  }
  EXPECT_FALSE(watched.expired());
  takes.PopFront();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace condacc
