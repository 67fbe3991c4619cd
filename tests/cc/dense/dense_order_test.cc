// Tests of dense accumulators that add gradients in the order of their contributors.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/float16.h"
#include "cc/core/base/hold_budget.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/saved_bytes.h"
#include "tests/cc/base/failing_new.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/dense/dense_support.h"
#include "tests/cc/math/dense_math_reference.h"

namespace condacc {
namespace {

constexpr size_t kElements = 5;

// Returns small numbers and large ones of both signs. So the order of additions shows in the
// result, even if sums are added in float32 and rounded to less.
template <typename T>
T RandomElement(std::mt19937* random) {
  using Sum = decltype(ElementTraits<T>::Widen(T{}));
  const Sum large = std::is_same_v<T, Float16> ? 0x1p15f : 0x1p30f;
  switch ((*random)() % 4) {
    case 0:
      return ElementTraits<T>::Narrow(large);
    case 1:
      return ElementTraits<T>::Narrow(-large);
    default:
      return ElementTraits<T>::Narrow(std::ldexp(static_cast<Sum>((*random)() % (1u << 24)),
                                                 -24 - static_cast<int>((*random)() % 10)));
  }
}

// The gradients of all contributors, and their weights.
template <typename T>
struct Contributions {
  Contributions(std::mt19937* random, size_t count) {
    std::uniform_real_distribution<double> weight(0.1, 3);
    for (size_t i = 0; i < count; ++i) {
      for (T& value : gradients.emplace_back(kElements)) value = RandomElement<T>(random);
      weights.push_back(weight(*random));
    }
  }

  std::vector<std::vector<T>> gradients;
  std::vector<double> weights;
};

template <typename T>
Accumulator::Options OrderedOptions(size_t num_contributors) {
  auto options = OptionsOf<T>(/*mean=*/true);
  options.sum.num_contributors = static_cast<int64_t>(num_contributors);
  return options;
}

// Returns an order of arrival of all contributors.
std::vector<size_t> Shuffled(size_t count, std::mt19937* random) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), *random);
  return order;
}

template <typename T>
class DenseOrderTest : public testing::Test {
 protected:
  // Applies the gradients of these contributors in this order, and takes the mean.
  std::vector<T> Mean(Accumulator* accumulator, const Contributions<T>& contributions,
                      const std::vector<size_t>& order, bool with_weights) {
    for (const size_t contributor : order) {
      // An accumulator in which gradients need not have contributors gets none.
      std::optional<int64_t> named;
      if (accumulator->options().sum.num_contributors > 0) named = contributor;
      std::vector<T> borrowed = contributions.gradients[contributor];
      Gradient gradient = random_() % 2 == 0 ? Owned(borrowed) : Borrowed(&borrowed);
      if (with_weights) gradient.weight = contributions.weights[contributor];
      const ApplyResult result = accumulator->Apply(accumulator->global_step(),
                                                    By(named, std::move(gradient)), workspace_);
      EXPECT_TRUE(result.is_added()) << result.status().message();
      // The accumulator must not read borrowed memory any more.
      std::memset(static_cast<void*>(borrowed.data()), 0x55, kElements * sizeof(T));
      if (named && random_() % 4 == 0) SaveAndRestore(*accumulator, workspace_);
    }
    DenseTake take(static_cast<int64_t>(order.size()));
    EXPECT_TRUE(accumulator->TryServe(take.ptr(), workspace_));
    EXPECT_TRUE(take.is_served()) << take.status().message();
    return take.is_served() ? take.values<T>() : std::vector<T>();
  }

  std::mt19937::result_type seed_ = TestSeed();
  std::mt19937 random_{seed_};
  TestWorkspace workspace_;
};

using OrderedTypes = testing::Types<float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(DenseOrderTest, OrderedTypes);

TYPED_TEST(DenseOrderTest, TheBitsAreThoseOfArrivalInOrder) {
  int num_different = 0;  // In which the order of arrival would have shown.
  for (int trial = 0; trial < 400; ++trial) {
    const size_t count = 1 + this->random_() % 20;
    SCOPED_TRACE(testing::Message() << "seed " << this->seed_ << ", trial " << trial);
    const Contributions<TypeParam> contributions(&this->random_, count);
    std::vector<size_t> arrivals = Shuffled(count, &this->random_);
    if (trial % 4 == 0) arrivals.resize(1 + this->random_() % count);  // Leaves gaps.
    std::vector<size_t> ascending = arrivals;
    std::sort(ascending.begin(), ascending.end());
    const bool with_weights = trial % 2 == 0;

    HoldBudget budget(this->random_() % 3 == 0 ? 40 : size_t{1} << 30);
    auto options = OrderedOptions<TypeParam>(count);
    options.sum.budget = &budget;
    options.sum.max_pending = 1 + this->random_() % 8;
    if (this->random_() % 3 == 0) options.sum.small_bytes = 1 << 10;
    if (this->random_() % 3 == 0) options.sum.max_pending_bytes = 0;
    Accumulator ordered(options);
    Accumulator plain(OptionsOf<TypeParam>(/*mean=*/true));
    for (int round = 0; round < 3; ++round) {  // The sums of rounds are used again.
      const auto expected = this->Mean(&plain, contributions, ascending, with_weights);
      EXPECT_TRUE(SameBits(this->Mean(&ordered, contributions, arrivals, with_weights), expected));
      EXPECT_EQ(budget.num_held(), 0u);
      const auto arrived = this->Mean(&plain, contributions, arrivals, with_weights);
      num_different += SameBits(arrived, expected) ? 0 : 1;
      std::shuffle(arrivals.begin(), arrivals.end(), this->random_);
    }
  }
  EXPECT_GT(num_different, 100);
}

class DenseOrderStateTest : public testing::Test {
 protected:
  ApplyResult Apply(std::optional<int64_t> contributor, float value) {
    return accumulator_.Apply(accumulator_.global_step(),
                              By(contributor, Owned(std::vector<float>(4, value))), workspace_);
  }
  float Take(int64_t num_required) {
    DenseTake take(num_required);
    EXPECT_TRUE(accumulator_.TryServe(take.ptr(), workspace_));
    EXPECT_TRUE(take.is_served());
    return take.is_served() ? take.values<float>()[0] : -1;
  }

  HoldBudget budget_{1 << 20};
  TestWorkspace workspace_;
  Accumulator accumulator_{[this] {
    auto options = OptionsOf<float>(/*mean=*/false, &budget_);
    options.sum.num_contributors = 4;
    return options;
  }()};
};

TEST_F(DenseOrderStateTest, AnEarlyBorrowedGradientIsCopiedAndCounted) {
  std::vector<float> values(4, 1.0f);
  ASSERT_TRUE(accumulator_.Apply(0, By(2, Borrowed(&values)), workspace_).is_added());
  EXPECT_EQ(workspace_.num_allocations(), 1);
  EXPECT_EQ(budget_.num_held(), sizeof(Gradient) + 4 * sizeof(float));
  ASSERT_TRUE(accumulator_.Apply(0, By(0, Borrowed(&values)), workspace_).is_added());
  EXPECT_EQ(workspace_.num_allocations(), 2) << "memory for the result, and no copy";
  ASSERT_TRUE(accumulator_.Apply(0, By(1, Borrowed(&values)), workspace_).is_added());
  EXPECT_EQ(workspace_.num_allocations(), 2) << "it comes in order";
  EXPECT_EQ(budget_.num_held(), 0u) << "the early one was added with it";
  EXPECT_EQ(Take(3), 3);
}

TEST_F(DenseOrderStateTest, BorrowedGradientsThatAreHeldStayAsTheyAre) {
  auto options = accumulator_.options();
  options.sum.holds_borrowed = true;
  Accumulator accumulator(options);
  std::vector<float> first(4, 1.0f), second(4, 2.0f);
  ASSERT_TRUE(accumulator.Apply(0, By(1, Borrowed(&first)), workspace_).is_added());
  ASSERT_TRUE(accumulator.Apply(0, By(2, Borrowed(&second)), workspace_).is_added());
  DenseTake take(2);
  accumulator.Request(take.ptr(), nullptr, workspace_);
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.values<float>(), std::vector<float>(4, 3.0f));
  EXPECT_EQ(first, std::vector<float>(4, 1.0f));
}

TEST_F(DenseOrderStateTest, GradientsThatTheFirstOneMakesReadyAreAddedIfTooMuchIsHeld) {
  HoldBudget budget(1);
  auto options = OptionsOf<float>(/*mean=*/false, &budget);
  options.sum.num_contributors = 4;
  Accumulator accumulator(options);
  for (const int64_t contributor : {2, 1, 0}) {
    Gradient gradient = By(contributor, Owned(std::vector<float>(4, 1.0f)));
    ASSERT_TRUE(accumulator.Apply(0, std::move(gradient), workspace_).is_added());
  }
  EXPECT_EQ(budget.num_held(), 0u);
}

TEST_F(DenseOrderStateTest, ContributorsAreRequired) {
  for (const std::optional<int64_t> contributor : {std::optional<int64_t>(), {-1}, {4}}) {
    const Status status = Apply(contributor, 1).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    const std::string got = contributor ? std::to_string(*contributor) : "no contributor";
    EXPECT_EQ(
        status.message(),
        "Gradients are added in the order of contributors 0 to 3: expected one of these, got " +
            got);
  }
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
}

TEST_F(DenseOrderStateTest, AllWeightsThatAreAcceptedCanBeRestored) {
  for (const double weight : {-0.0, 1e308, 1e308}) {
    Gradient gradient = Owned(std::vector<float>(4, 1));
    gradient.weight = weight;
    const int64_t contributor = accumulator_.num_accumulated();
    ASSERT_TRUE(accumulator_.Apply(0, By(contributor, std::move(gradient)), workspace_).is_added());
    SaveAndRestore(accumulator_, workspace_);
  }
}

TEST_F(DenseOrderStateTest, StatesAreThoseOfTheSameOrder) {
  ASSERT_TRUE(Apply(0, 1).is_added());
  ASSERT_TRUE(Apply(2, 1).is_added());
  const std::string bytes = SavedBytes(accumulator_, workspace_);
  for (const int64_t num_contributors : {0, 3, 5}) {
    auto options = OptionsOf<float>(/*mean=*/false);
    options.sum.num_contributors = num_contributors;
    Accumulator other(options);
    const Status status = RestoreBytes(bytes, other, workspace_);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("in the order of 4 contributors"), std::string::npos)
        << status.message();
    EXPECT_FALSE(RestoreBytes(SavedBytes(other, workspace_), accumulator_, workspace_).ok());
    EXPECT_EQ(accumulator_.num_accumulated(), 2);
  }
}

TEST_F(DenseOrderStateTest, ATakeMustNotRequireMoreThanAllContributors) {
  DenseTake take(5);
  EXPECT_TRUE(accumulator_.TryServe(take.ptr(), workspace_));
  EXPECT_EQ(take.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(take.status().message(),
            "Argument num_required must not be higher than the number of contributors, 4, but was "
            "5");
}

}  // namespace
}  // namespace condacc
