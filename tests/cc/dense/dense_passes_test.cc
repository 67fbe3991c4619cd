// Tests sums of more gradients than the workspace can add at once.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/dense/dense_math_reference.h"
#include "tests/cc/dense/test_block.h"

namespace condacc {
namespace {

constexpr size_t kSize = 9;
constexpr size_t kMaxInputs = 8;

// Fails the test if a sum has more inputs than the device of this workspace can add.
class NarrowWorkspace : public TestWorkspace {
 public:
  void Sum(const DenseSumArgs& args) override {
    EXPECT_LE(args.num_inputs, kMaxInputs);
    TestWorkspace::Sum(args);
  }
};

template <typename T>
class PassesTest : public testing::Test {
 protected:
  using Traits = ElementTraits<T>;

  static void Append(DenseSum* sum, const DenseOptions& options, const std::vector<T>& values,
                     DenseWorkspace& workspace) {
    DenseGradient gradient;
    gradient.block = TestBlock::Owning(kSize * sizeof(T));
    std::memcpy(gradient.block.data(), values.data(), kSize * sizeof(T));
    gradient.shape = Shape::Of({int64_t{kSize}});
    gradient.owned = true;
    while (sum->NeedOf(gradient) != DenseSum::Need::kNothing) {
      ASSERT_TRUE(DenseSum::Prepare(options, sum->NeedOf(gradient), workspace, &gradient).ok());
    }
    sum->Append(std::move(gradient));
  }

  // Appends gradients, and folds, if that is possible, once `fold_at` are there. Returns the mean,
  // and the number of passes.
  std::pair<std::vector<T>, int> Mean(const std::vector<std::vector<T>>& gradients, size_t fold_at,
                                      size_t max_inputs, TestWorkspace& workspace) {
    HoldBudget budget(size_t{1} << 30);
    DenseOptions options;
    options.type = kTypeOf<T>;
    options.budget = &budget;
    options.max_inputs = max_inputs;
    DenseSum sum(options);
    for (size_t i = 0; i < gradients.size(); ++i) {
      Append(&sum, options, gradients[i], workspace);
      if (i + 1 != fold_at || !sum.WantsFold(/*take_is_near=*/false)) continue;
      EXPECT_GT(sum.BeginFold(), 0);
      sum.RunFold(workspace);
      EXPECT_TRUE(sum.EndFold());
    }
    const DenseSum::Value value = sum.Finish(workspace);
    std::vector<T> mean(kSize);
    std::memcpy(mean.data(), value.block.data(), kSize * sizeof(T));
    return {mean, workspace.num_sums()};
  }
};

using Types = testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(PassesTest, Types);

TYPED_TEST(PassesTest, HaveTheBitsOfOnePass) {
  const uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  for (const size_t count : {9, 10, 16, 17, 18, 40}) {
    for (const size_t fold_at : {count, count - 1, count / 2, size_t{0}}) {
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << ", " << count << " gradients, fold at " << fold_at);
      std::vector<std::vector<TypeParam>> gradients(count, std::vector<TypeParam>(kSize));
      for (auto& gradient : gradients) {
        for (TypeParam& value : gradient) value = ElementTraits<TypeParam>::Random(random);
      }
      NarrowWorkspace narrow;
      TestWorkspace wide;
      const auto got = this->Mean(gradients, fold_at, kMaxInputs, narrow);
      const auto expected = this->Mean(gradients, fold_at, gradients.size(), wide);
      EXPECT_TRUE(SameBits(got.first, expected.first));
      if (fold_at == 0) {
        EXPECT_EQ(expected.second, 1);
        EXPECT_EQ(got.second, static_cast<int>((count - 1 + kMaxInputs - 1) / kMaxInputs));
      }
    }
  }
}

}  // namespace
}  // namespace condacc
