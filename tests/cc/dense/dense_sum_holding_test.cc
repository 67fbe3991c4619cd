// Tests of dense sums that hold borrowed gradients, as those of towers do.
#include <cstddef>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/dense/dense_support.h"

namespace condacc {
namespace {

constexpr size_t kHeldSize = 24;
constexpr size_t kHeldBytes = kHeldSize * sizeof(float);

// Sums that hold borrowed gradients like others, and large ones only until there are two.
template <typename T = float>
Accumulator::Options HoldingOptions(HoldBudget* budget, bool mean = false) {
  auto options = OptionsOf<T>(mean, budget);
  options.sum.small_bytes = 1 << 10;
  options.sum.UseForTowers(/*folds_wait=*/true);
  return options;
}

template <typename T>
void Apply(Accumulator* accumulator, Gradient gradient, TestWorkspace* workspace) {
  EXPECT_TRUE(accumulator->Apply(0, std::move(gradient), *workspace).is_added());
}

template <typename T>
std::vector<T> TakenBy(Accumulator* accumulator, int count, TestWorkspace* workspace) {
  DenseTake take(count);
  EXPECT_TRUE(accumulator->TryServe(take.ptr(), *workspace));
  EXPECT_TRUE(take.is_served());
  return take.values<T>();
}

TEST(BorrowedTest, AreReadOnceWhereverTheyStandAmongOwnedOnes) {
  for (int owned = -1; owned < 5; ++owned) {
    HoldBudget budget(1 << 20);
    TestWorkspace workspace;
    Accumulator accumulator(HoldingOptions(&budget, /*mean=*/true));
    std::vector<std::vector<float>> gradients;
    for (int i = 0; i < 5; ++i) gradients.emplace_back(kHeldSize, static_cast<float>(1 << i));
    for (int i = 0; i < 5; ++i) {
      Apply<float>(&accumulator, i == owned ? Owned(gradients[i]) : Borrowed(&gradients[i]),
                   &workspace);
    }
    EXPECT_EQ(workspace.num_sums(), 0);
    EXPECT_EQ(workspace.num_allocations(), owned == 0 ? 0 : 1);
    EXPECT_EQ(budget.num_held(), (owned == 0 ? 4 : 5) * kHeldBytes);
    EXPECT_EQ(TakenBy<float>(&accumulator, 5, &workspace),
              std::vector<float>(kHeldSize, 31.0f / 5));
    EXPECT_EQ(workspace.num_sums(), 1);
    EXPECT_EQ(budget.num_held(), 0u);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(gradients[i][0], static_cast<float>(1 << i));
  }
}

TEST(BorrowedTest, NoMoreAreHeldHoweverManyThereAre) {
  HoldBudget budget(1 << 20);
  TestWorkspace workspace;
  Accumulator accumulator(HoldingOptions(&budget));
  std::vector<float> ones(kHeldSize, 1.0f);
  for (int i = 0; i < 100; ++i) {
    Apply<float>(&accumulator, Borrowed(&ones), &workspace);
    EXPECT_LT(budget.num_held(), 8 * kHeldBytes);
  }
  EXPECT_EQ(TakenBy<float>(&accumulator, 100, &workspace), std::vector<float>(kHeldSize, 100.0f));
  EXPECT_EQ(ones, std::vector<float>(kHeldSize, 1.0f));
}

template <typename T>
void AddLarge(bool owned, int sums_after_two) {
  HoldBudget budget(1 << 20);
  TestWorkspace workspace;
  auto options = HoldingOptions<T>(&budget);
  options.sum.max_pending_bytes = kHeldSize * sizeof(T);
  Accumulator accumulator(options);
  std::vector<T> ones(kHeldSize, T(1));
  for (int i = 0; i < 6; ++i) {
    Apply<T>(&accumulator, owned ? Owned(ones) : Borrowed(&ones), &workspace);
    // The first gradient is the memory of the sum, or stays pending until there is a second one.
    EXPECT_EQ(budget.num_held(), !owned && i == 0 ? kHeldSize * sizeof(T) : 0u);
    EXPECT_EQ(workspace.num_sums(), i == 0 ? 0 : sums_after_two + i - 1);
  }
  EXPECT_EQ(TakenBy<T>(&accumulator, 6, &workspace), std::vector<T>(kHeldSize, T(6)));
}

TEST(LargeTest, AreAddedAsSoonAsThereAreTwo) {
  AddLarge<float>(/*owned=*/true, 1);
  AddLarge<float>(/*owned=*/false, 1);
  AddLarge<double>(/*owned=*/false, 1);
}

TEST(LargeTest, OfFloat16AreAddedInFloat32AsSoonAsThereAreTwo) {
  HoldBudget budget(1 << 20);
  TestWorkspace workspace;
  auto options = HoldingOptions<Float16>(&budget);
  options.sum.max_pending_bytes = kHeldSize * sizeof(Float16);
  Accumulator accumulator(options);
  std::vector<Float16> big(kHeldSize, Float16::FromFloat(2048.0f));
  std::vector<Float16> ones(kHeldSize, Float16::FromFloat(1.0f));
  Apply<Float16>(&accumulator, Borrowed(&big), &workspace);
  for (int i = 0; i < 6; ++i) {
    Apply<Float16>(&accumulator, Borrowed(&ones), &workspace);
    EXPECT_LE(budget.num_held(), kHeldSize * sizeof(Float16));
  }
  // Each 1 would be lost on the 2048 if it were added in float16.
  for (const Float16 value : TakenBy<Float16>(&accumulator, 7, &workspace)) {
    EXPECT_EQ(Float16::ToFloat(value), 2054.0f);
  }
}

}  // namespace
}  // namespace condacc
