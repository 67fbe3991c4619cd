// A sparse accumulator in whose takes a test can stop.
#ifndef CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_
#define CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/base/stop_point.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {

// A workspace that stops before it allocates the result of a take.
class StoppingSparseWorkspace : public TestSparseWorkspace {
 public:
  explicit StoppingSparseWorkspace(StopPoint* stop) : stop_(stop) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    stop_->Pass();
    return TestSparseWorkspace::Allocate(type, shape, buffer);
  }

 private:
  StopPoint* const stop_;
};

class SparsePhases : public testing::Test {
 protected:
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
  void ExpectServed(const SparseTake& take, float sum) {
    ASSERT_EQ(take.num_completions(), 1);
    ASSERT_TRUE(take.status().ok()) << take.status().message();
    EXPECT_EQ(take.slices().values[0], sum);
  }

  const int64_t num_live_ = TestBuffer::num_live();
  HoldBudget budget_{size_t{1} << 30};
  StopPoint stop_;
  TestSparseWorkspace plain_;
  std::shared_ptr<Accumulator> accumulator_ = std::make_shared<Accumulator>(Options(&budget_));
};

}  // namespace condacc

#endif  // CONDACC_TESTS_SPARSE_SPARSE_PHASES_H_
