// Taken sums have the bits of adding one gradient after the other.
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/accumulator_support.h"
#include "tests/cc/dense/dense_math_reference.h"

namespace condacc {
namespace {

template <typename T>
class BitsTest : public testing::Test {
 protected:
  using Traits = ElementTraits<T>;
  using Wide = decltype(Traits::Widen(T()));

  void RunRound(Accumulator* accumulator, size_t size, int length, bool mean) {
    std::vector<Wide> sums;
    RecordedTake take(length);
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

  const uint32_t seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  std::vector<T> pool_ = std::vector<T>(997);
  TestWorkspace workspace_;
};

using Types = testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(BitsTest, Types);

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
    RecordedTake take(1);
    accumulator.Request(take.ptr(), nullptr, workspace);
    ASSERT_TRUE(take.is_served());
    ASSERT_EQ(Narrow::ToFloat(Narrow::FromFloat(sum)), sum) << "the sum can be told exactly";
    for (Narrow value : take.values<Narrow>()) EXPECT_EQ(Narrow::ToFloat(value), sum) << count;
  }
}

TEST(RoundingTest, Float16IsRoundedOncePerTake) { ExpectRoundedOnce<Float16>(0x1p-11f); }
TEST(RoundingTest, BFloat16IsRoundedOncePerTake) { ExpectRoundedOnce<BFloat16>(0x1p-8f); }

}  // namespace
}  // namespace condacc
