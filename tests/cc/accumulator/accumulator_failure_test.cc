// If a workspace reports a failure, the take of the round that it spoiled fails with it.
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/accumulator_support.h"

namespace condacc {
namespace {

// The workspace of a device that refuses to add.
class FailingWorkspace : public TestWorkspace {
 public:
  void Add(const DenseAddArgs& args) override {
    TestWorkspace::Add(args);
    has_failed_ = true;
  }
  Status failure() const override {
    return has_failed_ ? Status(StatusCode::kInternal, "The device refuses") : Status();
  }

 private:
  bool has_failed_ = false;
};

class WorkspaceFailures : public testing::Test {
 protected:
  void Apply(TestWorkspace& workspace) {
    ASSERT_TRUE(
        accumulator_.Apply(accumulator_.global_step(), Owned<float>({1}), workspace).is_added());
  }
  void ExpectSpoiled(const RecordedTake& take) {
    ASSERT_EQ(take.num_completions(), 1);
    EXPECT_EQ(take.status().code(), StatusCode::kInternal);
    EXPECT_EQ(take.status().message(), "The device refuses (accumulator 'tested')");
  }
  void ExpectNextRoundIsSound() {
    EXPECT_EQ(accumulator_.num_accumulated(), 0);
    for (int i = 0; i < 3; ++i) Apply(workspace_);
    RecordedTake take(3);
    accumulator_.Request(take.ptr(), nullptr, workspace_);
    ASSERT_TRUE(take.is_served()) << take.status().message();
    EXPECT_EQ(take.values<float>(), std::vector<float>{3});
  }

  TestWorkspace workspace_;
  FailingWorkspace failing_;
  Accumulator accumulator_{OptionsOf<float>(/*mean=*/false)};
};

TEST_F(WorkspaceFailures, AFoldThatFailedSpoilsTheTake) {
  for (int i = 0; i < kFoldAt; ++i) Apply(workspace_);
  Apply(failing_);
  RecordedTake take(1);
  accumulator_.Request(take.ptr(), nullptr, workspace_);
  ExpectSpoiled(take);
  ExpectNextRoundIsSound();
}

TEST_F(WorkspaceFailures, ALastPassThatFailedSpoilsTheTake) {
  for (int i = 0; i < 2; ++i) Apply(workspace_);
  RecordedTake take(1);
  accumulator_.Request(take.ptr(), nullptr, failing_);
  ExpectSpoiled(take);
  ExpectNextRoundIsSound();
}

TEST_F(WorkspaceFailures, ATakeThatWaitsIsToldByWhoeverCompletesIt) {
  RecordedTake take(2);
  accumulator_.Request(take.ptr(), nullptr, workspace_);
  Apply(workspace_);
  Apply(failing_);
  ExpectSpoiled(take);
  ExpectNextRoundIsSound();
}

TEST_F(WorkspaceFailures, ALastPassOverALoanThatWasHeldSpoilsTheTake) {
  auto options = OptionsOf<float>(/*mean=*/false);
  options.sum.holds_borrowed = true;
  Accumulator holding(options);
  std::vector<float> loan{1};
  ASSERT_TRUE(holding.Apply(0, Borrowed(&loan), workspace_).ok());
  RecordedTake take(1);
  ASSERT_TRUE(holding.TryServe(take.ptr(), failing_));
  ExpectSpoiled(take);
  EXPECT_EQ(holding.num_accumulated(), 0);
}

}  // namespace
}  // namespace condacc
