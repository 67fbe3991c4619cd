// Tests of failing workspaces, gradients that do not fit, and refused memory.
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/dense/dense_support.h"

namespace condacc {
namespace {

// A workspace of a device that refuses to add. Like a lack of memory for a launch, that is
// ResourceExhausted, which neither a take nor a save may report once gradients are lost.
class FailingWorkspace : public TestWorkspace {
 public:
  void Add(const DenseAddArgs& args) override {
    TestWorkspace::Add(args);
    has_failed_ = refuses_;
  }
  Status TakeFailure() noexcept override {
    if (!std::exchange(has_failed_, false)) return Status();
    return Status(StatusCode::kResourceExhausted, "The device refuses");
  }
  // Refuses no more.
  void Recover() { refuses_ = false; }

 private:
  bool refuses_ = true;
  bool has_failed_ = false;
};

class WorkspaceFailures : public testing::Test {
 protected:
  void Apply(TestWorkspace& workspace) {
    ASSERT_TRUE(
        accumulator_.Apply(accumulator_.global_step(), Owned<float>({1}), workspace).is_added());
  }
  Status Save(TestWorkspace& workspace) {
    return accumulator_.Save(workspace, [&](size_t num_bytes, char** memory) {
      EXPECT_LE(num_bytes, sizeof(bytes_));
      *memory = bytes_;
      return Status();
    });
  }
  void ExpectSpoiled(const DenseTake& take) {
    ASSERT_EQ(take.num_completions(), 1);
    EXPECT_EQ(take.status().code(), StatusCode::kInternal);
    EXPECT_EQ(take.status().message(), "The device refuses");
  }
  void ExpectNextRoundIsSound() {
    EXPECT_EQ(accumulator_.num_accumulated(), 0);
    for (int i = 0; i < 3; ++i) Apply(workspace_);
    DenseTake take(3);
    accumulator_.Request(take.ptr(), nullptr, workspace_);
    ASSERT_TRUE(take.is_served()) << take.status().message();
    EXPECT_EQ(take.values<float>(), std::vector<float>{3});
  }

  TestWorkspace workspace_;
  FailingWorkspace failing_;
  Accumulator accumulator_{OptionsOf<float>(/*mean=*/false)};
  alignas(64) char bytes_[1024];
};

TEST_F(WorkspaceFailures, AFoldThatFailedSpoilsTheSaveAndTheTake) {
  for (int i = 0; i < kFoldAt; ++i) Apply(workspace_);
  Apply(failing_);
  EXPECT_EQ(Save(workspace_).code(), StatusCode::kInternal);
  DenseTake take(1);
  accumulator_.Request(take.ptr(), nullptr, workspace_);
  ExpectSpoiled(take);
  ExpectNextRoundIsSound();
}

TEST_F(WorkspaceFailures, ASaveThatFailedSpoilsNothing) {
  for (int i = 0; i < 2; ++i) Apply(workspace_);
  const Status saved = Save(failing_);
  EXPECT_EQ(saved.code(), StatusCode::kResourceExhausted);  // It may be tried again.
  EXPECT_EQ(saved.message(), "The device refuses");
  failing_.Recover();
  DenseTake take(2);
  accumulator_.Request(take.ptr(), nullptr, failing_);
  ASSERT_TRUE(take.is_served()) << take.status().message();
  EXPECT_EQ(take.values<float>(), std::vector<float>{2});
}

TEST_F(WorkspaceFailures, ALastPassThatFailedSpoilsTheTake) {
  for (int i = 0; i < 2; ++i) Apply(workspace_);
  DenseTake take(1);
  accumulator_.Request(take.ptr(), nullptr, failing_);
  ExpectSpoiled(take);
  ExpectNextRoundIsSound();
}

TEST_F(WorkspaceFailures, AFailureOfTheApplyThatServesATakeSpoilsTheTake) {
  DenseTake take(2);
  accumulator_.Request(take.ptr(), nullptr, workspace_);
  Apply(workspace_);
  Apply(failing_);
  ExpectSpoiled(take);
  ExpectNextRoundIsSound();
}

TEST_F(WorkspaceFailures, ALastPassOverABorrowedGradientThatWasHeldSpoilsTheTake) {
  auto options = OptionsOf<float>(/*mean=*/false);
  options.sum.holds_borrowed = true;
  Accumulator holding(options);
  std::vector<float> borrowed{1};
  ASSERT_TRUE(holding.Apply(0, Borrowed(&borrowed), workspace_).ok());
  DenseTake take(1);
  ASSERT_TRUE(holding.TryServe(take.ptr(), failing_));
  ExpectSpoiled(take);
  EXPECT_EQ(holding.num_accumulated(), 0);
}

Gradient OfShape(const Shape& shape) {
  Gradient gradient = Owned(std::vector<float>(static_cast<size_t>(shape.num_elements()), 1.0f));
  gradient.shape = shape;
  return gradient;
}

class ShapeErrors : public testing::Test {
 protected:
  static Accumulator::Options Options() {
    auto options = OptionsOf<float>(/*mean=*/true);
    options.sum.shape = Shape::Of({2, Shape::kUnknownDim});
    return options;
  }
  Status Apply(const Shape& shape, int64_t local_step = 0) {
    return accumulator_.Apply(local_step, OfShape(shape), workspace_).status();
  }

  TestWorkspace workspace_;
  Accumulator accumulator_{Options()};
};

TEST_F(ShapeErrors, AGradientMustFitTheDeclaredShape) {
  for (const Shape& shape : {Shape(), Shape::Of({2}), Shape::Of({3, 1}), Shape::Of({2, 3, 1})}) {
    const Status status = Apply(shape);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "Shape mismatch: expected [2,?], got " + shape.ToString());
  }
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_EQ(accumulator_.num_dropped(), 0);
  EXPECT_TRUE(Apply(Shape::Of({2, 3})).ok());
}

TEST_F(ShapeErrors, AGradientMustHaveTheShapeOfTheFirstOneOfItsRound) {
  ASSERT_TRUE(Apply(Shape::Of({2, 3})).ok());
  const Status status = Apply(Shape::Of({2, 4}));
  EXPECT_EQ(status.message(), "Shape mismatch: expected [2,3], got [2,4]");
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
  ASSERT_TRUE(Apply(Shape::Of({2, 3})).ok());
  DenseTake take(2);
  accumulator_.Request(take.ptr(), nullptr, workspace_);
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.shape(), Shape::Of({2, 3}));
  EXPECT_EQ(take.values<float>(), std::vector<float>(6, 1.0f));
  EXPECT_TRUE(Apply(Shape::Of({2, 4}), 1).ok()) << "the next round is free to choose";
}

}  // namespace
}  // namespace condacc
