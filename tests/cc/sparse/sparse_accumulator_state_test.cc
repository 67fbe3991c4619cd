// Tests of saving and restoring sparse accumulators.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/accumulator/saved_state.h"
#include "cc/core/sparse/host_rows.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/saved_bytes.h"
#include "tests/cc/sparse/cpu_device.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

constexpr size_t kStateWidth = 3;

struct Case {
  Reduction reduction;
  bool on_device = false;
};

class SparseState : public testing::TestWithParam<Case> {
 protected:
  // `fold_bytes` tells how soon gradients are merged.
  static Accumulator::Options Options(Case tested, size_t fold_bytes = size_t{1} << 30) {
    Accumulator::Options options;
    options.new_sum = tested.on_device ? NewSparseSum<DeviceRows> : NewSparseSum<HostRows>;
    options.sum.reduction = tested.reduction;
    options.sum.shape = Shape::Of({100});
    options.sum.fold_bytes = fold_bytes;
    return options;
  }
  void Add(Accumulator& accumulator, const Slices& slices) {
    EXPECT_TRUE(accumulator.Apply(0, GradientOf(slices, kStateWidth, /*owned=*/true), workspace())
                    .is_added());
  }
  Slices Taken(Accumulator& accumulator, int num_required) {
    SparseTake take(num_required);
    accumulator.Request(take.ptr(), nullptr, workspace());
    EXPECT_TRUE(take.is_served()) << take.status().message();
    return take.is_served() ? take.slices() : Slices();
  }
  std::vector<Slices> Gradients(int count, bool has_weights) {
    std::vector<Slices> gradients;
    for (int i = 0; i < count; ++i) {
      gradients.push_back(RandomSlices(&random_, random_() % 30, 100, kStateWidth));
      if (has_weights && i % 3 == 1) gradients.back().weight = 0.1 * i;
    }
    return gradients;
  }

  // On a device, means have no weights.
  static std::vector<bool> HasWeights() {
    const bool may_have = !GetParam().on_device || GetParam().reduction != Reduction::kMean;
    return may_have ? std::vector<bool>{false, true} : std::vector<bool>{false};
  }
  Workspace& workspace() {
    if (GetParam().on_device) return device_;
    return workspace_;
  }

  std::mt19937 random_{1};
  TestSparseWorkspace workspace_;
  CpuDevice device_;
};

INSTANTIATE_TEST_SUITE_P(AllReductions, SparseState,
                         testing::Values(Case{Reduction::kMean}, Case{Reduction::kSum},
                                         Case{Reduction::kGlobalMean},
                                         Case{Reduction::kMean, /*on_device=*/true},
                                         Case{Reduction::kSum, /*on_device=*/true},
                                         Case{Reduction::kGlobalMean, /*on_device=*/true}));

TEST_P(SparseState, ContinuesWithTheSameBitsFromEveryPointOfARound) {
  for (const bool has_weights : HasWeights()) {
    const std::vector<Slices> gradients = Gradients(12, has_weights);
    for (size_t saved_after = 0; saved_after <= gradients.size(); ++saved_after) {
      Accumulator undisturbed(Options(GetParam()));
      Accumulator saved(Options(GetParam(), /*fold_bytes=*/saved_after % 2 == 0 ? 1 : 4000));
      Accumulator restored(Options(GetParam(), /*fold_bytes=*/1));
      for (const Slices& each : gradients) Add(undisturbed, each);
      for (size_t i = 0; i < saved_after; ++i) Add(saved, gradients[i]);
      const std::string bytes = SavedBytes(saved, workspace());
      const Status status = RestoreBytes(bytes, restored, workspace());
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(SavedBytes(restored, workspace()), bytes);
      for (size_t i = saved_after; i < gradients.size(); ++i) {
        Add(saved, gradients[i]);
        Add(restored, gradients[i]);
      }
      const Slices expected = Taken(undisturbed, 12);
      EXPECT_EQ(Taken(restored, 12), expected);
      EXPECT_EQ(Taken(saved, 12), expected);
    }
  }
}

TEST_P(SparseState, DoesNotDependOnWhatWasMerged) {
  Accumulator merging(Options(GetParam(), /*fold_bytes=*/1));
  Accumulator holding(Options(GetParam()));
  for (const Slices& each : Gradients(12, HasWeights().back())) {
    Add(merging, each);
    Add(holding, each);
  }
  EXPECT_EQ(SavedBytes(merging, workspace()), SavedBytes(holding, workspace()));
}

class SparseStateBytes : public SparseState {
 protected:
  // Returns a state with rows 2 and 7 of two gradients, of which one has row 7 only.
  std::string State() {
    Accumulator accumulator(Options({Reduction::kMean}));
    Add(accumulator, {{7, 2}, {1, 2, 3, 4, 5, 6}});
    Add(accumulator, {{7}, {1, 1, 1}});
    return SavedBytes(accumulator, workspace_);
  }
  void ExpectRefused(std::string bytes, size_t from_end, uint64_t value, const std::string& words) {
    std::memcpy(&bytes[bytes.size() - from_end], &value, sizeof(value));
    Accumulator accumulator(Options({Reduction::kMean}));
    Add(accumulator, {{1}, {3, 3, 3}});
    const std::string before = SavedBytes(accumulator, workspace_);
    const Status status = RestoreBytes(bytes, accumulator, workspace_);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    EXPECT_EQ(SavedBytes(accumulator, workspace_), before);
  }
  static uint64_t BitsOf(double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    return bits;
  }
};

INSTANTIATE_TEST_SUITE_P(OfMeans, SparseStateBytes, testing::Values(Case{Reduction::kMean}));

TEST_P(SparseStateBytes, ThatAreHostileAreRefused) {
  const std::string bytes = State();
  constexpr size_t kValues = 64;
  constexpr size_t kWeights = kValues + 64;
  constexpr size_t kIndices = kWeights + 64;
  ExpectRefused(bytes, kIndices, 7, "not in ascending order");
  ExpectRefused(bytes, kIndices, 9, "not in ascending order");
  ExpectRefused(bytes, kIndices, static_cast<uint64_t>(-1), "-1");
  ExpectRefused(bytes, kIndices - 8, 100, "100");
  ExpectRefused(bytes, kWeights, BitsOf(-1), "weights of saved rows");
  ExpectRefused(bytes, kWeights, BitsOf(std::numeric_limits<double>::quiet_NaN()),
                "weights of saved rows");
  ExpectRefused(bytes, kWeights, BitsOf(3), "weights of saved rows");
  ExpectRefused(bytes, kIndices - 16, 1, "not 0");
  for (size_t size = 0; size < bytes.size(); ++size) {
    Accumulator accumulator(Options({Reduction::kMean}));
    EXPECT_EQ(RestoreBytes(bytes.substr(0, size), accumulator, workspace_).code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_P(SparseStateBytes, OfManyRowsAreRestoredInPieces) {
  Accumulator::Options options = Options({Reduction::kSum});
  options.sum.shape = Shape::UnknownRank();
  Slices large = AscendingSlices(&random_, 1 << 20, 1 << 24, kStateWidth);
  const auto num_rows = static_cast<int64_t>(large.indices.size());
  ASSERT_GT(num_rows * kStateWidth * sizeof(float), size_t{8} << 20);
  Accumulator accumulator(options);
  Accumulator restored(options);
  Add(accumulator, large);
  Add(accumulator, {{5}, {1, 1, 1}});
  ASSERT_TRUE(RestoreBytes(SavedBytes(accumulator, workspace_), restored, workspace_).ok());
  Add(restored, {{6, 1 << 25}, {1, 1, 1, 2, 2, 2}});
  Add(accumulator, {{6, 1 << 25}, {1, 1, 1, 2, 2, 2}});
  EXPECT_EQ(Taken(restored, 3), Taken(accumulator, 3));
}

// Early gradients in the order of contributors have arrays of their own.
TEST_P(SparseStateBytes, OfEarlyGradientsThatAreHostileAreRefused) {
  Accumulator::Options options = Options({Reduction::kMean});
  options.sum.num_contributors = 4;
  Accumulator accumulator(options);
  for (const int64_t contributor : {3, 1}) {
    const Slices slices{{7, 2}, {1, 2, 3, 4, 5, 6}, 0.5};
    ASSERT_TRUE(
        accumulator
            .Apply(0, By(contributor, GradientOf(slices, kStateWidth, /*owned=*/true)), workspace_)
            .is_added());
  }
  const std::string bytes = SavedBytes(accumulator, workspace_);
  // The arrays are the description, of 113 characters, the dimensions, and the contributors,
  // weights, rows, indices and values of the early gradients.
  ASSERT_EQ(bytes.size(), 128 + 64 + 128 + 5 * 64);
  const auto expect_refused = [&](size_t array, size_t item, uint64_t value, const char* words) {
    std::string bad = bytes;
    std::memcpy(&bad[array + item * sizeof(value)], &value, sizeof(value));
    Accumulator restored(options);
    const Status status = RestoreBytes(bad, restored, workspace_);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    EXPECT_EQ(restored.num_accumulated(), 0);
  };
  constexpr size_t kDimsAt = 256;
  constexpr size_t kComeAt = kDimsAt + 64, kWeightsAt = kComeAt + 64, kRowsAt = kWeightsAt + 64;
  expect_refused(kDimsAt, 0, 1, "values of shape [1,3]");
  expect_refused(kDimsAt, 1, 2, "not 0");
  expect_refused(kComeAt, 0, 0, "contributor 0 out of order");
  expect_refused(kComeAt, 1, 4, "contributor 4 out of order");
  expect_refused(kWeightsAt, 1, BitsOf(-1), "an early gradient has the weight -1");
  expect_refused(kWeightsAt, 1, BitsOf(std::numeric_limits<double>::infinity()), "weight inf");
  expect_refused(kRowsAt, 0, 1, "too few rows");
  expect_refused(kRowsAt, 1, 3, "too many rows");
  expect_refused(kRowsAt, 1, static_cast<uint64_t>(-1), "too many rows");
  expect_refused(kRowsAt + 64, 0, 100, "100");
  expect_refused(offsetof(StateHeader, num_early_rows), 0, 100, "do not fit its size");
  expect_refused(offsetof(StateHeader, num_early), 0, 1, "not 0");
  expect_refused(offsetof(StateHeader, num_early), 0, 3, "contributors, gradients");
}

class SparseStateOfDevices : public SparseState {
 protected:
  static Accumulator::Options On(bool device, int64_t num_contributors = 0) {
    Accumulator::Options options = Options({GetParam().reduction, device}, /*fold_bytes=*/1000);
    options.sum.num_contributors = num_contributors;
    return options;
  }
  void Apply(Accumulator& accumulator, const Slices& slices, Workspace& workspace,
             std::optional<int64_t> contributor = std::nullopt) {
    Gradient gradient = GradientOf(slices, kStateWidth, /*owned=*/true);
    ASSERT_TRUE(accumulator.Apply(0, By(contributor, std::move(gradient)), workspace).is_added());
  }
  void ExpectCannotBeSaved(Accumulator& accumulator, const std::string& words) {
    const Status status = accumulator.Save(device_, [](size_t, char**) {
      return Status(StatusCode::kInternal, "memory was asked for");
    });
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
};

INSTANTIATE_TEST_SUITE_P(AllReductions, SparseStateOfDevices,
                         testing::Values(Case{Reduction::kMean, true}, Case{Reduction::kSum, true},
                                         Case{Reduction::kGlobalMean, true}));

TEST_P(SparseStateOfDevices, AreThoseOfTheHost) {
  for (const bool in_order : {false, true}) {
    constexpr int kCount = 9;
    Accumulator host(On(false, in_order ? kCount : 0)), device(On(true, in_order ? kCount : 0));
    const std::vector<Slices> gradients = Gradients(kCount, /*has_weights=*/false);
    const auto add = [&](int i) {
      std::optional<int64_t> contributor;  // Some are early.
      if (in_order) contributor = (i + 4) % kCount;
      Apply(host, gradients[i], workspace_, contributor);
      Apply(device, gradients[i], device_, contributor);
    };
    for (int i = 0; i < kCount - 2; ++i) add(i);
    const std::string bytes = SavedBytes(host, workspace_);
    EXPECT_EQ(SavedBytes(device, device_), bytes);
    ASSERT_TRUE(RestoreBytes(bytes, device, device_).ok());
    ASSERT_TRUE(RestoreBytes(SavedBytes(device, device_), host, workspace_).ok());
    for (int i = kCount - 2; i < kCount; ++i) add(i);
    SparseTake take(kCount);
    host.Request(take.ptr(), nullptr, workspace_);
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(Taken(device, kCount), take.slices());
  }
}

TEST_P(SparseStateOfDevices, CannotBeMadeOfABadIndex) {
  for (const int num_others : {1, 40}) {  // These are merged before the save.
    Accumulator accumulator(On(true));
    Apply(accumulator, {{3, 7}, {1, 2, 3, 4, 5, 6}}, device_);
    Apply(accumulator, {{5, 100, 6}, std::vector<float>(9)}, device_);
    for (int i = 0; i < num_others; ++i) Apply(accumulator, {{4}, {1, 1, 1}}, device_);
    ExpectCannotBeSaved(accumulator, "index is 100");
    EXPECT_EQ(accumulator.num_accumulated(), num_others + 2);
    SparseTake take(1);
    accumulator.Request(take.ptr(), nullptr, device_);
    EXPECT_EQ(take.status().code(), StatusCode::kInvalidArgument);
    SaveAndRestore(accumulator, device_);
    EXPECT_EQ(accumulator.num_accumulated(), 0);
  }
}

TEST_P(SparseStateOfDevices, WithABadIndexOfAnEarlyGradientAreRefused) {
  Accumulator accumulator(On(GetParam().on_device, /*num_contributors=*/2));
  Apply(accumulator, {{7, 2}, {1, 2, 3, 4, 5, 6}}, device_, 1);
  std::string bytes = SavedBytes(accumulator, device_);
  bytes[bytes.size() - 2 * 64 + 7] = '\xff';  // The last arrays are the indices and the values.
  Accumulator restored(On(GetParam().on_device, /*num_contributors=*/2));
  const Status status = RestoreBytes(bytes, restored, device_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("index of slice 0 is negative"), std::string::npos)
      << status.message();
  EXPECT_EQ(restored.num_accumulated(), 0);
}

TEST_P(SparseStateOfDevices, ChangeNothingIfTheDeviceRefuses) {
  Accumulator accumulator(On(true));
  Apply(accumulator, {{3, 7}, {1, 2, 3, 4, 5, 6}}, device_);
  const std::string before = SavedBytes(accumulator, device_);
  Apply(accumulator, {{3}, {1, 2, 3}}, device_);
  const std::string after = SavedBytes(accumulator, device_);
  device_.Refuse(true);
  EXPECT_EQ(accumulator.Save(device_, [](size_t, char**) { return Status(); }).code(),
            StatusCode::kInternal);
  EXPECT_EQ(RestoreBytes(before, accumulator, device_).code(), StatusCode::kInternal);
  device_.Refuse(false);
  EXPECT_EQ(SavedBytes(accumulator, device_), after);
}

TEST_P(SparseStateOfDevices, WithWeightsAreContinuedWhereTheyCanBe) {
  Accumulator host(On(false)), device(On(true));
  for (const Slices& each : Gradients(4, /*has_weights=*/true)) Apply(host, each, workspace_);
  const Status status = RestoreBytes(SavedBytes(host, workspace_), device, device_);
  if (GetParam().reduction == Reduction::kMean) {
    EXPECT_NE(status.message().find("restore them on a CPU"), std::string::npos);
    EXPECT_EQ(device.num_accumulated(), 0);
    return;
  }
  ASSERT_TRUE(status.ok()) << status.message();
  SparseTake take(4);
  host.Request(take.ptr(), nullptr, workspace_);
  EXPECT_EQ(Taken(device, 4), take.slices());
}

}  // namespace
}  // namespace condacc
