// Tests of the arithmetic of dense sums.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/dense/dense_support.h"
#include "tests/cc/math/dense_math_reference.h"

namespace condacc {
namespace {

constexpr size_t kOddSize = 9;
constexpr size_t kMaxGradients = 8;

// Fails the test if a sum has more inputs than the device of this workspace can add.
class NarrowWorkspace : public TestWorkspace {
 public:
  void Add(const DenseAddArgs& args) override {
    EXPECT_LE(args.num_inputs, kMaxGradients);
    TestWorkspace::Add(args);
  }
};

// A workspace whose first sum waits for the test. Its flags order no other accesses to memory, so
// ThreadSanitizer notices if a later pass reads what the test writes meanwhile.
class PausedWorkspace : public TestWorkspace {
 public:
  void Add(const DenseAddArgs& args) override {
    is_paused_.store(true, std::memory_order_relaxed);
    while (!may_go_on_.load(std::memory_order_relaxed)) std::this_thread::yield();
    TestWorkspace::Add(args);
  }

  void AwaitPause() const {
    while (!is_paused_.load(std::memory_order_relaxed)) std::this_thread::yield();
  }
  void GoOn() { may_go_on_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> is_paused_{false}, may_go_on_{false};
};

// Sums of more gradients than the workspace can add at once.
template <typename T>
class DenseSumPassesTest : public testing::Test {
 protected:
  using Traits = ElementTraits<T>;

  static void Append(DenseSum* sum, const std::vector<T>& values, Workspace& workspace) {
    Gradient gradient = Owned(values);
    while (true) {
      const Missing missing = sum->MissingFrom(gradient, /*is_early=*/false);
      if (missing == Missing::kNothing) break;
      ASSERT_TRUE(sum->Supply(missing, workspace, &gradient).ok());
    }
    sum->Append(std::move(gradient));
  }

  // Appends gradients, and folds, if possible, once `fold_at` of them are pending. Returns the
  // mean, and the number of passes.
  std::pair<std::vector<T>, int> Mean(const std::vector<std::vector<T>>& gradients, size_t fold_at,
                                      size_t max_inputs, TestWorkspace& workspace) {
    HoldBudget budget(size_t{1} << 30);
    SumOptions options;
    options.type = kTypeOf<T>;
    options.budget = &budget;
    options.max_inputs = max_inputs;
    DenseSum sum(options);
    for (size_t i = 0; i < gradients.size(); ++i) {
      Append(&sum, gradients[i], workspace);
      if (i + 1 != fold_at) continue;
      if (sum.Advise({RoundSum::kUnknown, /*is_waiting=*/false}) == Advice::kLeave) continue;
      EXPECT_GT(sum.BeginFold(), 0);
      sum.RunFold(workspace);
      EXPECT_TRUE(sum.EndFold());
    }
    const Value value = sum.Finish(workspace);
    return {ValuesOf(value), workspace.num_sums()};
  }

  static std::vector<T> ValuesOf(const Value& value) {
    std::vector<T> values(kOddSize);
    std::memcpy(values.data(), value.values.data(), kOddSize * sizeof(T));
    return values;
  }
};

using SumTypes = testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(DenseSumPassesTest, SumTypes);

TYPED_TEST(DenseSumPassesTest, HaveTheBitsOfOnePass) {
  const uint32_t seed = TestSeed();
  std::mt19937 random(seed);
  for (const size_t count : {9, 10, 16, 17, 18, 40}) {
    for (const size_t fold_at : {count, count - 1, count / 2, size_t{0}}) {
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << ", " << count << " gradients, fold at " << fold_at);
      std::vector<std::vector<TypeParam>> gradients(count, std::vector<TypeParam>(kOddSize));
      for (auto& gradient : gradients) {
        for (TypeParam& value : gradient) value = ElementTraits<TypeParam>::Random(random);
      }
      NarrowWorkspace narrow;
      TestWorkspace wide;
      const auto got = this->Mean(gradients, fold_at, kMaxGradients, narrow);
      const auto expected = this->Mean(gradients, fold_at, gradients.size(), wide);
      EXPECT_TRUE(SameBits(got.first, expected.first));
      if (fold_at == 0) {
        EXPECT_EQ(expected.second, 1);
        EXPECT_EQ(got.second, static_cast<int>((count - 1 + kMaxGradients - 1) / kMaxGradients));
      }
    }
  }
}

TYPED_TEST(DenseSumPassesTest, GradientsMayBeAppendedBetweenThePassesOfAFold) {
  using Traits = ElementTraits<TypeParam>;
  SumOptions options;
  options.type = kTypeOf<TypeParam>;
  options.max_inputs = kMaxGradients;
  DenseSum sum(options);
  TestWorkspace plain;
  const auto append = [&](int value) {
    const TypeParam element = Traits::Narrow(static_cast<float>(value));
    this->Append(&sum, std::vector<TypeParam>(kOddSize, element), plain);
  };
  constexpr int kFolded = kMaxGradients + 2;  // The first one, and one more than a pass can add.
  for (int value = 1; value <= kFolded; ++value) append(value);
  EXPECT_GT(sum.BeginFold(), static_cast<int64_t>(kMaxGradients));
  PausedWorkspace paused;
  std::thread folder([&] { sum.RunFold(paused); });
  paused.AwaitPause();
  append(kFolded + 1);
  paused.GoOn();
  folder.join();
  EXPECT_EQ(paused.num_sums(), 2);
  EXPECT_TRUE(sum.EndFold());
  const TypeParam mean = Traits::Narrow(static_cast<float>(kFolded + 2) / 2);
  EXPECT_TRUE(SameBits(this->ValuesOf(sum.Finish(plain)), std::vector<TypeParam>(kOddSize, mean)));
}

// Sums that an accumulator has folded have the same bits as if gradients were added one by one.
template <typename T>
class BitsTest : public testing::Test {
 protected:
  using Traits = ElementTraits<T>;
  using Wide = decltype(Traits::Widen(T()));

  void RunRound(Accumulator* accumulator, size_t size, int length, bool mean) {
    std::vector<Wide> sums;
    DenseTake take(length);
    const int requested_at = static_cast<int>(random_() % static_cast<uint32_t>(length + 1));
    const int64_t step = accumulator->global_step();
    for (int i = 0; i < length; ++i) {
      if (i == requested_at) accumulator->Request(take.ptr(), nullptr, workspace_);
      std::vector<T> values(size);
      for (T& value : values) value = pool_[random_() % pool_.size()];
      if (i == 0) {
        for (T value : values) sums.push_back(Traits::Widen(value));
      } else {
        for (size_t k = 0; k < size; ++k) {
          sums[k] = Traits::Plus(sums[k], Traits::Widen(values[k]));
        }
      }
      Gradient gradient = random_() % 4 == 0 ? Borrowed(&values) : Owned(values);
      ASSERT_TRUE(accumulator->Apply(step, std::move(gradient), workspace_).is_added());
    }
    if (requested_at == length) accumulator->Request(take.ptr(), nullptr, workspace_);
    ASSERT_TRUE(take.is_served());
    std::vector<T> expected;
    for (Wide sum : sums) {
      expected.push_back(Traits::Narrow(mean && length > 1 ? Traits::Over(sum, length) : sum));
    }
    ASSERT_TRUE(SameBits(take.values<T>(), expected)) << length;
  }

  void RunRounds(size_t size, const std::vector<int>& lengths) {
    SCOPED_TRACE(testing::Message() << "seed " << seed_);
    for (T& value : pool_) value = Traits::Random(random_);
    for (bool mean : {false, true}) {
      HoldBudget budget(100 * size);  // The budget is exceeded now and then.
      Accumulator accumulator(OptionsOf<T>(mean, &budget));
      for (int length : lengths) {
        RunRound(&accumulator, size, length, mean);
        if (this->HasFatalFailure()) return;
        EXPECT_EQ(budget.num_held(), 0u);
      }
    }
  }

  const uint32_t seed_ = TestSeed();
  std::mt19937 random_{seed_};
  std::vector<T> pool_ = std::vector<T>(997);
  TestWorkspace workspace_;
};

TYPED_TEST_SUITE(BitsTest, SumTypes);

TYPED_TEST(BitsTest, SmallGradients) {
  std::vector<int> lengths;
  for (int length = 1; length <= 40; ++length) lengths.insert(lengths.end(), 3, length);
  this->RunRounds(33, lengths);
}

TYPED_TEST(BitsTest, BigGradients) { this->RunRounds(kBigSize, {1, 2, 3, 5, 9, 17}); }

// Each of these values is lost if the sum is rounded to the narrow type before the next is added.
template <typename Narrow>
void ExpectRoundedOnce(float small) {
  for (int count : {2, 4, 8, 16, 30}) {
    TestWorkspace workspace;
    Accumulator accumulator(OptionsOf<Narrow>(/*mean=*/false));
    float sum = 1.0f;
    for (int i = 0; i <= count; ++i) {
      const std::vector<Narrow> values(9, Narrow::FromFloat(i == 0 ? 1.0f : small));
      ASSERT_TRUE(accumulator.Apply(0, Owned(values), workspace).ok());
      sum += i == 0 ? 0.0f : small;
    }
    DenseTake take(1);
    accumulator.Request(take.ptr(), nullptr, workspace);
    ASSERT_TRUE(take.is_served());
    ASSERT_EQ(Narrow::ToFloat(Narrow::FromFloat(sum)), sum) << "the sum can be told exactly";
    for (Narrow value : take.values<Narrow>()) EXPECT_EQ(Narrow::ToFloat(value), sum) << count;
  }
}

TEST(RoundingTest, Float16IsRoundedOncePerTake) { ExpectRoundedOnce<Float16>(0x1p-11f); }
TEST(RoundingTest, BFloat16IsRoundedOncePerTake) { ExpectRoundedOnce<BFloat16>(0x1p-8f); }

TEST(WeightTest, ABadWeightIsRefused) {
  TestWorkspace workspace;
  Accumulator accumulator(OptionsOf<float>(/*mean=*/true));
  for (const double weight : {-1.0, std::nan(""), HUGE_VAL}) {
    Gradient gradient = Owned<float>({1});
    gradient.weight = weight;
    EXPECT_EQ(accumulator.Apply(0, std::move(gradient), workspace).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(accumulator.num_accumulated(), 0);
}

TEST(HostWorkspaceTest, ClearsSoManyBytes) {
  TestWorkspace workspace;
  std::vector<char> bytes{1, 2, 3};
  EXPECT_TRUE(workspace.Clear(bytes.data(), 2).ok());
  EXPECT_EQ(bytes, (std::vector<char>{0, 0, 3}));
}

}  // namespace
}  // namespace condacc
