// Tests of saving and restoring sparse accumulators.
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/sparse/host_rows.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/saved_bytes.h"
#include "tests/cc/sparse/cpu_device.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

constexpr size_t kStateWidth = 3;

class SparseState : public testing::TestWithParam<Reduction> {
 protected:
  // `fold_bytes` tells how soon gradients are merged.
  static Accumulator::Options Options(Reduction reduction, size_t fold_bytes = size_t{1} << 30) {
    Accumulator::Options options;
    options.name = "tested";
    options.new_sum = NewSparseSum<HostRows>;
    options.sum.reduction = reduction;
    options.sum.shape = Shape::Of({100});
    options.sum.fold_bytes = fold_bytes;
    return options;
  }
  void Add(Accumulator& accumulator, const Slices& slices) {
    EXPECT_TRUE(accumulator.Apply(0, GradientOf(slices, kStateWidth, /*owned=*/true), workspace_)
                    .is_added());
  }
  Slices Taken(Accumulator& accumulator, int num_required) {
    SparseTake take(num_required);
    accumulator.Request(take.ptr(), nullptr, workspace_);
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

  std::mt19937 random_{1};
  TestSparseWorkspace workspace_;
};

INSTANTIATE_TEST_SUITE_P(AllReductions, SparseState,
                         testing::Values(Reduction::kMean, Reduction::kSum,
                                         Reduction::kGlobalMean));

TEST_P(SparseState, ContinuesWithTheSameBitsFromEveryPointOfARound) {
  for (const bool has_weights : {false, true}) {
    const std::vector<Slices> gradients = Gradients(12, has_weights);
    for (size_t saved_after = 0; saved_after <= gradients.size(); ++saved_after) {
      Accumulator undisturbed(Options(GetParam()));
      Accumulator saved(Options(GetParam(), /*fold_bytes=*/saved_after % 2 == 0 ? 1 : 4000));
      Accumulator restored(Options(GetParam(), /*fold_bytes=*/1));
      for (const Slices& each : gradients) Add(undisturbed, each);
      for (size_t i = 0; i < saved_after; ++i) Add(saved, gradients[i]);
      const std::string bytes = SavedBytes(saved, workspace_);
      const Status status = RestoreBytes(bytes, restored, workspace_);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(SavedBytes(restored, workspace_), bytes);
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
  for (const Slices& each : Gradients(12, /*has_weights=*/true)) {
    Add(merging, each);
    Add(holding, each);
  }
  EXPECT_EQ(SavedBytes(merging, workspace_), SavedBytes(holding, workspace_));
}

class SparseStateBytes : public SparseState {
 protected:
  // Returns a state with rows 2 and 7 of two gradients, of which one has row 7 only.
  std::string State() {
    Accumulator accumulator(Options(Reduction::kMean));
    Add(accumulator, {{7, 2}, {1, 2, 3, 4, 5, 6}});
    Add(accumulator, {{7}, {1, 1, 1}});
    return SavedBytes(accumulator, workspace_);
  }
  void ExpectRefused(std::string bytes, size_t from_end, uint64_t value, const std::string& words) {
    std::memcpy(&bytes[bytes.size() - from_end], &value, sizeof(value));
    Accumulator accumulator(Options(Reduction::kMean));
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

INSTANTIATE_TEST_SUITE_P(OfMeans, SparseStateBytes, testing::Values(Reduction::kMean));

TEST_P(SparseStateBytes, ThatAreHostileAreRefused) {
  const std::string bytes = State();
  constexpr size_t kValues = 2 * kStateWidth * sizeof(float);
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
  ExpectRefused(bytes, kIndices - 16, 1, "cut off");  // Padding.
  for (size_t size = 0; size < bytes.size(); ++size) {
    Accumulator accumulator(Options(Reduction::kMean));
    EXPECT_EQ(RestoreBytes(bytes.substr(0, size), accumulator, workspace_).code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_P(SparseStateBytes, ServeATakeThatWaits) {
  Accumulator accumulator(Options(Reduction::kMean));
  SparseTake take(2);
  accumulator.Request(take.ptr(), nullptr, workspace_);
  ASSERT_TRUE(RestoreBytes(State(), accumulator, workspace_).ok());
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.slices(), (Slices{{2, 7}, {4, 5, 6, 1, 1.5f, 2}}));
}

TEST_P(SparseStateBytes, AreNotReadOrWrittenWithoutMemory) {
  const std::string bytes = State();
  Accumulator accumulator(Options(Reduction::kMean));
  Add(accumulator, {{1}, {3, 3, 3}});
  const std::string before = SavedBytes(accumulator, workspace_);
  for (int i = 0; i < 2; ++i) {
    workspace_.RefuseAllocation(i);
    Status status;
    try {
      status = RestoreBytes(bytes, accumulator, workspace_);
    } catch (const std::bad_alloc&) {
      status = Status(StatusCode::kResourceExhausted, "");
    }
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(SavedBytes(accumulator, workspace_), before);
  workspace_.RefuseAllocation(0);
  const Status status = accumulator.Save(workspace_, [](size_t, char**) { return Status(); });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(SavedBytes(accumulator, workspace_), before);
}

TEST_P(SparseStateBytes, OfManyRowsAreRestoredInPieces) {
  Accumulator::Options options = Options(Reduction::kSum);
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

TEST_P(SparseStateBytes, AreNotSupportedOnADevice) {
  Accumulator::Options options;
  options.new_sum = NewSparseSum<DeviceRows>;
  Accumulator accumulator(options);
  CpuDevice workspace;
  Gradient gradient = GradientOf({{1}, {3, 3, 3}}, kStateWidth, /*owned=*/true);
  ASSERT_TRUE(accumulator.Apply(0, std::move(gradient), workspace).is_added());
  EXPECT_EQ(accumulator.Save(workspace, [](size_t, char**) { return Status(); }).code(),
            StatusCode::kUnimplemented);
  options.sum.num_contributors = 2;
  Accumulator ordered(options);
  gradient = GradientOf({{1}, {3, 3, 3}}, kStateWidth, /*owned=*/true);
  ASSERT_TRUE(ordered.Apply(0, std::move(gradient), workspace, /*contributor=*/1).is_added());
  EXPECT_EQ(ordered.Save(workspace, [](size_t, char**) { return Status(); }).code(),
            StatusCode::kUnimplemented)
      << "an early gradient";
  Accumulator::Options like_host = Options(Reduction::kMean);
  like_host.new_sum = NewSparseSum<DeviceRows>;
  Accumulator other(like_host);
  EXPECT_EQ(RestoreBytes(State(), other, workspace).code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace condacc
