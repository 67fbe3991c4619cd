// A sparse accumulator whose folds and takes a test can stop.
#ifndef CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_
#define CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/base/stop_point.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {

// A workspace that stops at a stop before each allocation of one of two kinds: memory for folds and
// takes to work in, or the results of takes.
class GatedSparseWorkspace : public TestSparseWorkspace {
 public:
  enum class Where { kInFolds, kInResults };
  GatedSparseWorkspace(StopPoint* stop, Where where) : stop_(stop), where_(where) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    if (where_ == Where::kInResults) stop_->Pass();
    return TestSparseWorkspace::Allocate(type, shape, buffer);
  }
  Status AllocateInner(ElementType type, const Shape& shape, Buffer* buffer) override {
    if (where_ == Where::kInFolds) stop_->Pass();
    return TestSparseWorkspace::AllocateInner(type, shape, buffer);
  }

 private:
  StopPoint* const stop_;
  const Where where_;
};

struct TakeOutcome {
  std::atomic<int> num_completions{0};
  StatusCode code = StatusCode::kOk;
  float sum = 0;
};

class SparsePhases : public testing::Test {
 protected:
  using Where = GatedSparseWorkspace::Where;
  using TakePtr = SparseAccumulator::TakePtr;

  static SparseAccumulator::Options Options(HoldBudget* budget) {
    SparseAccumulator::Options options;
    options.name = "tested";
    options.sum.budget = budget;
    options.sum.fold_bytes = 1;  // Every fourth gradient is due for a fold.
    options.sum.reduction = SparseReduction::kSum;
    options.sum.spares = std::make_shared<SpareBuffers>(0, budget);
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

  static TakePtr NewTake(TakeOutcome* outcome, int64_t num_required,
                         std::optional<int64_t> global_step = std::nullopt) {
    return std::make_shared<SparseAccumulator::Take>(
        num_required,
        [outcome](const Status& status, SparseAccumulator::Value* value) {
          outcome->code = status.code();
          if (value != nullptr) outcome->sum = *static_cast<const float*>(value->values.data());
          ++outcome->num_completions;
        },
        global_step);
  }
  bool TryServe(TakeOutcome* outcome, int64_t num_required, int64_t global_step) {
    return accumulator_->TryServe(NewTake(outcome, num_required, global_step), plain_);
  }
  void ExpectServed(const TakeOutcome& outcome, float sum) {
    ASSERT_EQ(outcome.num_completions, 1);
    EXPECT_EQ(outcome.code, StatusCode::kOk);
    EXPECT_EQ(outcome.sum, sum);
  }

  // Accumulates four gradients, and stops in the fold of them.
  void StartFolding() {
    ApplySeveral(3);
    apply_ = std::async(std::launch::async, [this] {
      GatedSparseWorkspace gated(&stop_, Where::kInFolds);
      return Apply(gated);
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
  template <typename T>
  static bool IsWaiting(const std::future<T>& future) {
    return future.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout;
  }

  const int64_t num_live_ = TestBuffer::num_live();
  HoldBudget budget_{size_t{1} << 30};
  StopPoint stop_;
  TestSparseWorkspace plain_;
  std::future<bool> apply_;
  std::shared_ptr<SparseAccumulator> accumulator_ =
      std::make_shared<SparseAccumulator>(Options(&budget_));
};

}  // namespace condacc

#endif  // CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_
