#include "cc/core/base/wait_list.h"

#include <memory>
#include <utility>
#include <vector>

#include "cc/core/base/mutex.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

struct Visitor : Waiter<Visitor> {
  explicit Visitor(std::vector<Visitor*>* completed = nullptr) : completed(completed) {}

  void Complete() { completed->push_back(this); }

  std::vector<Visitor*>* const completed;
};
using VisitorPtr = std::shared_ptr<Visitor>;

VisitorPtr NewVisitor() { return std::make_shared<Visitor>(); }

TEST(WaitList, IsEmptyAtFirst) {
  WaitList<Visitor> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  EXPECT_EQ(list.size(), 0u);
}

TEST(WaitList, IsLeftInTheOrderInWhichItWasJoined) {
  WaitList<Visitor> list;
  const VisitorPtr a = NewVisitor(), b = NewVisitor(), c = NewVisitor();
  for (const VisitorPtr& visitor : {a, b, c}) list.PushBack(visitor);
  EXPECT_EQ(list.front(), a.get());
  EXPECT_EQ(list.size(), 3u);
  for (const VisitorPtr& visitor : {a, b, c}) EXPECT_EQ(list.PopFront(), visitor);
  EXPECT_TRUE(list.empty());
}

TEST(WaitList, KnowsWhoWaits) {
  WaitList<Visitor> list;
  const VisitorPtr popped = NewVisitor(), removed = NewVisitor();
  EXPECT_FALSE(popped->is_waiting());
  list.PushBack(popped);
  list.PushBack(removed);
  EXPECT_TRUE(popped->is_waiting());
  EXPECT_TRUE(removed->is_waiting());
  list.PopFront();
  WaitList<Visitor>::Remove(removed.get());
  EXPECT_FALSE(popped->is_waiting());
  EXPECT_FALSE(removed->is_waiting());
}

TEST(WaitList, AnyoneCanLeaveEarlyAndComeBackAtTheEnd) {
  for (size_t leaving = 0; leaving < 3; ++leaving) {
    WaitList<Visitor> list;
    std::vector<VisitorPtr> all = {NewVisitor(), NewVisitor(), NewVisitor()};
    for (const VisitorPtr& visitor : all) list.PushBack(visitor);
    const VisitorPtr left = WaitList<Visitor>::Remove(all[leaving].get());
    EXPECT_EQ(left, all[leaving]);
    EXPECT_EQ(list.size(), 2u);
    list.PushBack(left);
    all.erase(all.begin() + static_cast<int64_t>(leaving));
    all.push_back(left);
    for (const VisitorPtr& visitor : all) EXPECT_EQ(list.PopFront(), visitor);
    EXPECT_TRUE(list.empty());
  }
}

TEST(WaitList, LeavingConcernsTheListInWhichTheVisitorWaits) {
  WaitList<Visitor> first, second;
  const VisitorPtr stays = NewVisitor(), moves = NewVisitor();
  first.PushBack(stays);
  first.PushBack(moves);
  second.PushBack(WaitList<Visitor>::Remove(moves.get()));
  WaitList<Visitor>::Remove(moves.get());
  EXPECT_EQ(first.front(), stays.get());
  EXPECT_TRUE(second.empty());
}

TEST(WaitList, AVisitorMayLeaveWhenItIsVisited) {
  WaitList<Visitor> list;
  const VisitorPtr a = NewVisitor(), b = NewVisitor(), c = NewVisitor();
  for (const VisitorPtr& visitor : {a, b, c}) list.PushBack(visitor);
  std::vector<Visitor*> visited;
  for (Visitor* const visitor : list) {
    visited.push_back(visitor);
    if (visitor != b.get()) WaitList<Visitor>::Remove(visitor);
  }
  EXPECT_EQ(visited, (std::vector<Visitor*>{a.get(), b.get(), c.get()}));
  EXPECT_EQ(list.front(), b.get());
  EXPECT_EQ(list.size(), 1u);
}

TEST(WaitList, KeepsItsVisitorsOnlyWhileTheyWait) {
  std::weak_ptr<Visitor> popped, left;
  {
    WaitList<Visitor> list;
    VisitorPtr visitor = NewVisitor();
    popped = visitor;
    list.PushBack(std::move(visitor));
    EXPECT_FALSE(popped.expired());
    list.PopFront();
    EXPECT_TRUE(popped.expired());
    visitor = NewVisitor();
    left = visitor;
    list.PushBack(std::move(visitor));
  }
  EXPECT_TRUE(left.expired());
}

TEST(EndedWaits, AreCompletedInOrderAndThenReleased) {
  std::vector<Visitor*> completed;
  const auto a = std::make_shared<Visitor>(&completed), b = std::make_shared<Visitor>(&completed);
  {
    EndedWaits<Visitor> ended;
    ended.Add(a);
    ended.Add(b);
    EXPECT_TRUE(completed.empty());
    EXPECT_FALSE(a->is_waiting());
  }
  EXPECT_EQ(completed, (std::vector<Visitor*>{a.get(), b.get()}));
  EXPECT_EQ(a.use_count(), 1);
  EXPECT_EQ(b.use_count(), 1);
}

// A visitor that checks whether the lock is free.
struct LockingVisitor : Waiter<LockingVisitor> {
  void Complete() {
    const MutexLock lock(mu);
    ++num_completions;
  }

  Mutex* mu = nullptr;
  int num_completions = 0;
};

TEST(CompletingLock, CompletesAfterTheLockWasReleased) {
  Mutex mu;
  EndedWaits<LockingVisitor> ended;
  const auto visitor = std::make_shared<LockingVisitor>();
  visitor->mu = &mu;
  {
    const CompletingLock lock(&mu, &ended);
    ended.Add(visitor);
  }
  EXPECT_EQ(visitor->num_completions, 1);
  {
    const CompletingLock lock(&mu, &ended);
  }
  EXPECT_EQ(visitor->num_completions, 1);
}

}  // namespace
}  // namespace condacc
