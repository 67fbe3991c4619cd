// Tests of sparse accumulators that add gradients in the order of their contributors, in host
// memory and on a device, which is the CPU.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
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

// Gradients that a take refuses, because the device detects only then that an index is bad.
class OrderedBadRowsTest : public DeviceRowsTest {
 protected:
  void MakeWith(size_t fold_bytes, int64_t num_contributors = 6) {
    auto options = Options(fold_bytes);
    options.sum.shape = Shape::Of({kRange, 1});
    options.sum.reduction = Reduction::kGlobalMean;
    options.sum.num_contributors = num_contributors;
    Make(options);
  }
  ApplyResult Contribute(std::optional<int64_t> contributor, int64_t index, double weight) {
    Slices slices{{0, index}, {static_cast<float>(weight), 1}, weight};
    return accumulator_->Apply(accumulator_->global_step(),
                               By(contributor, GradientOf(slices, 1, /*owned=*/true)), device_);
  }
  void ExpectRefused(int64_t num_required) {
    DeviceTake take(num_required);
    Request(take);
    EXPECT_EQ(take.status().code(), StatusCode::kInvalidArgument) << take.status().message();
  }
  void ExpectCannotBeSaved(StatusCode code, const std::string& words) {
    const Status status = accumulator_->Save(device_, [&](size_t num_bytes, char** memory) {
      state_.resize(num_bytes / sizeof(double) + 1);
      *memory = reinterpret_cast<char*>(state_.data());
      return Status();
    });
    EXPECT_EQ(status.code(), code);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find(words), status.message().rfind(words)) << status.message();
  }
  std::vector<double> state_;
  // Returns the row that all gradients have, whose value is that of the weights.
  float CommonRow(size_t num_required) {
    const Slices taken = Take(num_required);
    return taken.values.empty() ? -1 : taken.values[0];
  }
  static constexpr double kWeights[] = {0.1, 0.2, 0.3, 0.7, 1.1, 1.3};
  // Returns that row if the weights of these contributors are added in order.
  static float Expected(const std::vector<int>& contributors) {
    double total = 0;
    float sum = 0;
    for (const int i : contributors) {
      sum += static_cast<float>(kWeights[i]);
      total += kWeights[i];
    }
    return sum / static_cast<float>(total);
  }
};

TEST_F(OrderedBadRowsTest, AGradientThatWasPendingMayBeReplaced) {
  MakeWith(/*fold_bytes=*/size_t{1} << 30);
  for (const int64_t contributor : {4, 1, 0, 2}) {
    const bool is_bad = contributor == 1 || contributor == 4;
    ASSERT_TRUE(Contribute(contributor, is_bad ? kRange : 5, kWeights[contributor]).is_added());
  }
  ExpectCannotBeSaved(StatusCode::kInvalidArgument, "index is 50");
  ExpectRefused(4);
  EXPECT_EQ(accumulator_->num_accumulated(), 2);
  SaveAndRestore(*accumulator_, device_);
  for (const int64_t contributor : {3, 1, 5, 4}) {
    ASSERT_TRUE(Contribute(contributor, 5, kWeights[contributor]).is_added());
  }
  EXPECT_EQ(Contribute(1, 5, 1).outcome(), ApplyOutcome::kDuplicate);
  EXPECT_EQ(CommonRow(6), Expected({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(budget_.num_held(), 0u);
}

TEST_F(OrderedBadRowsTest, AGradientWhosePlaceHasPassedCannotBeReplaced) {
  MakeWith(/*fold_bytes=*/1);
  for (int64_t i = 0; i < 5; ++i) {  // At the fourth one, the first four are merged.
    ASSERT_TRUE(Contribute(i, i == 2 ? kRange : 5, kWeights[i]).is_added());
  }
  ExpectRefused(5);
  EXPECT_EQ(accumulator_->num_accumulated(), 4);
  const Status status = Contribute(2, 5, kWeights[2]).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "The gradient of contributor 2 was discarded, and those of later contributors have been "
      "added, so that another one cannot be added in order: reset the accumulator");
  ExpectCannotBeSaved(StatusCode::kFailedPrecondition, "reset the accumulator");
  ASSERT_TRUE(Contribute(5, 5, kWeights[5]).is_added());
  EXPECT_EQ(CommonRow(5), Expected({0, 1, 3, 4, 5}));
  SaveAndRestore(*accumulator_, device_);
  ASSERT_TRUE(Contribute(2, 5, 1).is_added()) << "of the next round";
  accumulator_->Reset(7);
  EXPECT_EQ(budget_.num_held(), 0u);
  for (int64_t i = 5; i >= 0; --i) ASSERT_TRUE(Contribute(i, 5, kWeights[i]).is_added());
  EXPECT_EQ(CommonRow(6), Expected({0, 1, 2, 3, 4, 5}));
}

TEST_F(OrderedBadRowsTest, GradientsThatNoGoodOneFollowedCanBeReplaced) {
  for (const std::vector<int>& bad : {std::vector<int>{3}, {2, 3}, {0, 1, 2, 3}}) {
    MakeWith(/*fold_bytes=*/1);
    const auto is_bad = [&](int i) { return std::count(bad.begin(), bad.end(), i) > 0; };
    for (const int i : {5, 0, 1, 2, 3, 4}) {  // At the one before the last, four are merged.
      ASSERT_TRUE(Contribute(i, is_bad(i) ? kRange : 5, kWeights[i]).is_added());
    }
    ExpectRefused(6);
    SaveAndRestore(*accumulator_, device_);
    for (const int i : bad) ASSERT_TRUE(Contribute(i, 5, kWeights[i]).is_added());
    EXPECT_EQ(CommonRow(6), Expected({0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(budget_.num_held(), 0u);
  }
}

TEST_F(OrderedBadRowsTest, AnEarlyGradientIsCheckedBeforeItIsSaved) {
  for (const int64_t num_others : {0, 1}) {
    MakeWith(/*fold_bytes=*/size_t{1} << 30);
    for (int64_t i = 0; i < num_others; ++i) ASSERT_TRUE(Contribute(i, 5, 1).is_added());
    ASSERT_TRUE(Contribute(4, -1, 1).is_added());
    ExpectCannotBeSaved(StatusCode::kInvalidArgument, "index is -1");
    ExpectCannotBeSaved(StatusCode::kInvalidArgument, "The next take discards this gradient");
    EXPECT_EQ(accumulator_->num_accumulated(), num_others + 1);
    ExpectRefused(1);
    SaveAndRestore(*accumulator_, device_);
    EXPECT_EQ(accumulator_->num_accumulated(), num_others);
  }
}

TEST_F(OrderedBadRowsTest, TheWeightsOfRefusedGradientsLeaveNoTrace) {
  MakeWith(/*fold_bytes=*/size_t{1} << 30, /*num_contributors=*/0);
  for (const double weight : {1e16, 1.0, 1.0}) {
    const bool is_last = accumulator_->num_accumulated() == 2;
    ASSERT_TRUE(Contribute(std::nullopt, is_last ? 5 : kRange, weight).is_added());
  }
  ExpectRefused(3);
  EXPECT_EQ(CommonRow(1), 1);
}

}  // namespace
}  // namespace condacc
