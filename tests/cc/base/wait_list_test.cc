#include "cc/core/base/wait_list.h"

#include <memory>
#include <utility>
#include <vector>

#include "cc/core/base/mutex.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

struct Visitor : Waiter<Visitor> {
  explicit Visitor(Mutex* mu = nullptr, std::vector<Visitor*>* completed = nullptr)
      : mu(mu), completed(completed) {}

  void Complete() {
    const MutexLock lock(mu);  // It must be free.
    completed->push_back(this);
  }

  Mutex* const mu;
  std::vector<Visitor*>* const completed;
};
using VisitorPtr = std::shared_ptr<Visitor>;

VisitorPtr NewVisitor() { return std::make_shared<Visitor>(); }

TEST(WaitList, IsLeftAtAnyPlaceAndJoinedAtTheEnd) {
  for (size_t leaving = 0; leaving < 3; ++leaving) {
    WaitList<Visitor> list;
    std::vector<VisitorPtr> all = {NewVisitor(), NewVisitor(), NewVisitor()};
    for (const VisitorPtr& visitor : all) {
      EXPECT_FALSE(visitor->is_waiting());
      visitor->BeginWait(&list);
      EXPECT_TRUE(visitor->is_waiting());
    }
    const VisitorPtr left = all[leaving]->Leave();
    EXPECT_EQ(left, all[leaving]);
    EXPECT_FALSE(left->is_waiting());
    EXPECT_EQ(list.size(), 2u);
    left->BeginWait(&list);
    all.erase(all.begin() + static_cast<int64_t>(leaving));
    all.push_back(left);
    for (const VisitorPtr& visitor : all) EXPECT_EQ(list.front()->Leave(), visitor);
    EXPECT_TRUE(list.empty());
  }
}

TEST(WaitList, KeepsItsVisitorsOnlyWhileTheyWait) {
  std::weak_ptr<Visitor> left, stays;
  {
    WaitList<Visitor> list;
    VisitorPtr visitor = NewVisitor();
    left = visitor;
    std::exchange(visitor, NewVisitor())->BeginWait(&list);
    EXPECT_FALSE(left.expired());
    list.front()->Leave();
    EXPECT_TRUE(left.expired());
    stays = visitor;
    visitor->BeginWait(&list);
  }
  EXPECT_TRUE(stays.expired());
}

TEST(CompletingLock, CompletesInOrderAfterTheLockWasReleased) {
  Mutex mu;
  std::vector<Visitor*> completed;
  const auto never_waits = std::make_shared<Visitor>(&mu, &completed);
  const auto waits = std::make_shared<Visitor>(&mu, &completed);
  WaitList<Visitor> waiting, ended;
  waits->BeginWait(&waiting);
  for (int i = 0; i < 2; ++i) {  // The second lock has nothing to complete.
    const CompletingLock lock(&mu, &ended);
    if (i > 0) break;
    never_waits->EndWait(&ended);
    waits->EndWait(&ended);
    EXPECT_FALSE(waits->is_waiting());
    EXPECT_TRUE(waiting.empty());
    EXPECT_TRUE(completed.empty());
  }
  EXPECT_EQ(completed, (std::vector<Visitor*>{never_waits.get(), waits.get()}));
  EXPECT_EQ(never_waits.use_count(), 1);
  EXPECT_EQ(waits.use_count(), 1);
}

}  // namespace
}  // namespace condacc
