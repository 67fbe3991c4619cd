// Tests of sparse accumulators that add gradients in the order of their contributors, in host
// memory and on a device, which is the CPU.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/hold_budget.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/saved_bytes.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/sparse/device_rows_fixture.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

constexpr size_t kOrderedWidth = 3;

// `Rows` says where the gradients are, and `Device` works there.
template <class Rows, class Device>
struct Place {
  using Workspace = Device;
  static constexpr SumFactory kNewSum = NewSparseSum<Rows>;
  // On a device, gradients with weights have no MEAN.
  static constexpr bool kHasWeightedMean = Rows::kIsHost;
  static constexpr bool kCanBeSaved = Rows::kIsHost;
};

template <class Place>
class SparseOrderTest : public testing::Test {
 protected:
  using Workspace = typename Place::Workspace;

  static Accumulator::Options OptionsOf(Reduction reduction, size_t num_contributors) {
    Accumulator::Options options;
    options.new_sum = Place::kNewSum;
    options.sum.reduction = reduction;
    options.sum.num_contributors = static_cast<int64_t>(num_contributors);
    return options;
  }

  // Applies the gradients of these contributors in this order, and takes the result.
  Slices Result(Accumulator* accumulator, const std::vector<Slices>& gradients,
                const std::vector<size_t>& order) {
    for (const size_t contributor : order) {
      const bool owned = random_() % 2 == 0;
      const ApplyResult result = accumulator->Apply(
          accumulator->global_step(),
          By(contributor, GradientOf(gradients[contributor], kOrderedWidth, owned)), workspace_);
      EXPECT_TRUE(result.is_added()) << result.status().message();
      const bool is_ordered = accumulator->options().sum.num_contributors > 0;
      if (Place::kCanBeSaved && is_ordered && random_() % 4 == 0) {
        SaveAndRestore(*accumulator, workspace_);
      }
    }
    SparseTake take(static_cast<int64_t>(order.size()));
    EXPECT_TRUE(accumulator->TryServe(take.ptr(), workspace_));
    EXPECT_TRUE(take.is_served()) << take.status().message();
    return take.is_served() ? take.slices() : Slices();
  }

  std::vector<Slices> Gradients(size_t count, bool with_weights) {
    std::uniform_real_distribution<double> weight(0.1, 3);
    std::vector<Slices> gradients;
    for (size_t i = 0; i < count; ++i) {
      gradients.push_back(RandomSlices(&random_, random_() % 30, kRange, kOrderedWidth));
      if (with_weights) gradients.back().weight = weight(random_);
    }
    return gradients;
  }

  const std::mt19937::result_type seed_ = TestSeed();
  std::mt19937 random_{seed_};
  Workspace workspace_;
};

using Places = testing::Types<Place<HostRows, TestSparseWorkspace>, Place<DeviceRows, CpuDevice>>;
TYPED_TEST_SUITE(SparseOrderTest, Places);

TYPED_TEST(SparseOrderTest, TheBitsAreThoseOfArrivalInOrder) {
  int num_different = 0;  // In which the order of arrival would have shown.
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << this->seed_ << ", trial " << trial);
    const auto reduction = static_cast<Reduction>(trial % 3);
    const bool with_weights =
        this->random_() % 2 == 0 && (TypeParam::kHasWeightedMean || reduction != Reduction::kMean);
    const size_t count = 1 + this->random_() % 20;
    const std::vector<Slices> gradients = this->Gradients(count, with_weights);
    std::vector<size_t> arrivals(count);
    std::iota(arrivals.begin(), arrivals.end(), 0);
    std::shuffle(arrivals.begin(), arrivals.end(), this->random_);
    if (trial % 4 == 0) arrivals.resize(1 + this->random_() % count);  // Leaves gaps.
    std::vector<size_t> ascending = arrivals;
    std::sort(ascending.begin(), ascending.end());
    std::vector<Slices> present;
    for (const size_t contributor : ascending) present.push_back(gradients[contributor]);
    const Slices expected = Merged(present, kOrderedWidth, reduction);

    HoldBudget budget(this->random_() % 2 == 0 ? 1000 : size_t{1} << 30);
    auto options = this->OptionsOf(reduction, count);
    options.sum.budget = &budget;
    if (this->random_() % 2 == 0) options.sum.fold_bytes = 1;
    Accumulator ordered(options);
    for (int round = 0; round < 3; ++round) {  // The sums of rounds are used again.
      EXPECT_TRUE(this->Result(&ordered, gradients, arrivals) == expected);
      EXPECT_EQ(budget.num_held(), 0u);
      Accumulator plain(this->OptionsOf(reduction, 0));
      num_different += this->Result(&plain, gradients, arrivals) == expected ? 0 : 1;
      std::shuffle(arrivals.begin(), arrivals.end(), this->random_);
    }
  }
  EXPECT_GT(num_different, 100);
}

// A bad index spoils a round, which the device detects only when the gradient is merged.
class OrderedBadRowsTest : public DeviceRowsTest, public testing::WithParamInterface<size_t> {
 protected:
  void SetUp() override {
    auto options = Options(/*fold_bytes=*/GetParam());
    options.sum.shape = Shape::Of({kRange, 1});
    options.sum.num_contributors = 6;
    Make(options);
  }
  void Contribute(int64_t contributor, int64_t index) {
    const Slices slices{{0, index}, {1, 1}};
    const ApplyResult result =
        accumulator_->Apply(accumulator_->global_step(),
                            By(contributor, GradientOf(slices, 1, /*owned=*/true)), device_);
    ASSERT_TRUE(result.is_added()) << result.status().message();
  }
  static void ExpectBadIndex(const Status& status, const std::string& words) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  void ExpectCannotBeSaved(const std::string& words) {
    std::vector<double> state;
    ExpectBadIndex(accumulator_->Save(device_,
                                      [&](size_t num_bytes, char** memory) {
                                        state.resize(num_bytes / sizeof(double) + 1);
                                        *memory = reinterpret_cast<char*>(state.data());
                                        return Status();
                                      }),
                   words);
  }
};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutFolds, OrderedBadRowsTest,
                         testing::Values(size_t{1}, size_t{1} << 30));

TEST_P(OrderedBadRowsTest, TheRoundIsLostAndTheNextOneHasAllContributors) {
  for (const std::vector<int64_t>& order :
       {std::vector<int64_t>{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {4, 1, 0, 5}}) {
    for (const int64_t contributor : order) Contribute(contributor, contributor == 4 ? kRange : 5);
    ExpectCannotBeSaved("index is 50 exceeded 50 (contributor 4)");
    const auto size = static_cast<int64_t>(order.size());
    DeviceTake take(size);
    Request(take);
    ExpectBadIndex(take.status(), "index is 50 exceeded 50 (contributor 4)");
    EXPECT_EQ(accumulator_->num_accumulated(), 0);
    SaveAndRestore(*accumulator_, device_);
    for (const int64_t contributor : order) Contribute(contributor, 5);
    EXPECT_EQ(Take(order.size()), (Slices{{0, 5}, {1, 1}}));
    EXPECT_EQ(budget_.num_held(), 0u);
  }
}

TEST_P(OrderedBadRowsTest, AnEarlyGradientIsCheckedBeforeItIsSaved) {
  for (const int64_t num_others : {0, 1}) {
    for (int64_t i = 0; i < num_others; ++i) Contribute(i, 5);
    Contribute(4, -1);
    ExpectCannotBeSaved("index is -1 (contributor 4)");
    EXPECT_EQ(accumulator_->num_accumulated(), num_others + 1);
    EXPECT_EQ(accumulator_->Reset(0), num_others + 1);
    SaveAndRestore(*accumulator_, device_);
  }
}

}  // namespace
}  // namespace condacc
