// A sparse accumulator in whose folds and takes a test can stop.
#ifndef CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_
#define CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/base/is_waiting.h"
#include "tests/cc/base/stop_point.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {

// A workspace that stops before each allocation of one of two kinds: working memory for folds and
// takes, or the results of takes.
class StoppingSparseWorkspace : public TestSparseWorkspace {
 public:
  enum class Where { kInFolds, kInResults };
  StoppingSparseWorkspace(StopPoint* stop, Where where) : stop_(stop), where_(where) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    if (where_ == Where::kInResults) stop_->Pass();
    return TestSparseWorkspace::Allocate(type, shape, buffer);
  }
  Buffer AllocateInner(size_t num_bytes) override {
    if (where_ == Where::kInFolds) stop_->Pass();
    return TestSparseWorkspace::AllocateInner(num_bytes);
  }

 private:
  StopPoint* const stop_;
  const Where where_;
};

class SparsePhases : public testing::Test {
 protected:
  using Where = StoppingSparseWorkspace::Where;

  static Accumulator::Options Options(HoldBudget* budget) {
    Accumulator::Options options;
    options.new_sum = NewSparseSum<HostRows>;
    options.sum.budget = budget;
    options.sum.fold_bytes = 1;  // Every fourth gradient is due for a fold.
    options.sum.reduction = Reduction::kSum;
    return options;
  }

  bool Apply(TestSparseWorkspace& workspace, int64_t local_step = 1000) {
    const ApplyResult result =
        accumulator_->Apply(local_step, GradientOf({{5, 2}, {1, 1}}, 1, true), workspace);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }
  void ApplySeveral(int count) {
    for (int i = 0; i < count; ++i) EXPECT_TRUE(Apply(plain_));
  }

  bool TryServe(const SparseTake& take) { return accumulator_->TryServe(take.ptr(), plain_); }
  bool TryServe(int64_t num_required, int64_t global_step) {
    return TryServe(SparseTake(num_required, global_step));
  }
  void Request(const SparseTake& take) { accumulator_->Request(take.ptr(), accumulator_, plain_); }
  // Requests the take in a thread that stops while it makes the result.
  std::future<void> RequestInThread(const SparseTake& take) {
    auto request = std::async(std::launch::async, [this, &take] {
      StoppingSparseWorkspace stopping(&stop_, Where::kInResults);
      accumulator_->Request(take.ptr(), accumulator_, stopping);
    });
    stop_.AwaitArrivals(1);
    return request;
  }
  void ExpectServed(const SparseTake& take, float sum) {
    ASSERT_EQ(take.num_completions(), 1);
    ASSERT_TRUE(take.status().ok()) << take.status().message();
    EXPECT_EQ(take.slices().values[0], sum);
  }

  // Accumulates four gradients, and stops in the fold of them.
  void StartFolding() {
    ApplySeveral(3);
    apply_ = std::async(std::launch::async, [this] {
      StoppingSparseWorkspace stopping(&stop_, Where::kInFolds);
      return Apply(stopping);
    });
    stop_.AwaitArrivals(1);
  }
  void EndFolding() {
    stop_.Open();
    EXPECT_TRUE(apply_.get());
  }
  std::future<int64_t> ResetInThread(int64_t step) {
    return std::async(std::launch::async, [this, step] { return accumulator_->Reset(step); });
  }

  const int64_t num_live_ = TestBuffer::num_live();
  HoldBudget budget_{size_t{1} << 30};
  StopPoint stop_;
  TestSparseWorkspace plain_;
  std::future<bool> apply_;
  std::shared_ptr<Accumulator> accumulator_ = std::make_shared<Accumulator>(Options(&budget_));
};

}  // namespace condacc

#endif  // CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_
