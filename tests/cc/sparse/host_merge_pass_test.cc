#include "cc/core/sparse/host_merge_pass.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cc/core/base/float16.h"
#include "gtest/gtest.h"
#include "tests/cc/base/parallel_for_support.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

std::vector<HostSource> SourcesOf(const std::vector<Slices>& gradients) {
  std::vector<HostSource> sources;
  for (const Slices& gradient : gradients) sources.push_back(SourceOf(gradient));
  return sources;
}

// Merges the first gradients in steps, and the rest while the result is written.
Slices MergeInSteps(const std::vector<Slices>& gradients, const std::vector<size_t>& steps,
                    size_t width, int64_t divisor, TestWorkspace& workspace) {
  const SliceLayout layout{ElementType::kFloat32, width};
  MergedRows merged;
  size_t begin = 0;
  for (size_t end : steps) {
    const std::vector<Slices> step(gradients.begin() + begin, gradients.begin() + end);
    HostMergePass(layout, SourcesOf(step), &merged, workspace).MergeInto(workspace);
    begin = end;
  }
  const std::vector<Slices> rest(gradients.begin() + begin, gradients.end());
  HostMergePass merge(layout, SourcesOf(rest), &merged, workspace);
  Slices result;
  result.indices.resize(merge.num_rows());
  result.values.resize(merge.num_rows() * width);
  merge.WriteTo(result.indices.data(), result.values.data(), divisor, workspace.parallel_for());
  return result;
}

class HostMergePassTest : public testing::TestWithParam<bool> {
 protected:
  TestWorkspace workspace_{GetParam() ? ParallelFor(ThreadedFor) : SerialFor};
};

// Sums without elements may have null pointers.
TEST_P(HostMergePassTest, RowsWithoutWidthAreMergedAndWrittenWithoutMemory) {
  const SliceLayout layout{ElementType::kFloat32, 0};
  MergedRows merged;
  const Slices gradient{{5, 1}, {}};
  HostMergePass fold(layout, {SourceOf(gradient)}, &merged, workspace_);
  EXPECT_EQ(fold.num_new_rows(), 2u);
  fold.MergeInto(workspace_);
  HostMergePass merge(layout, {}, &merged, workspace_);
  EXPECT_EQ(merge.num_new_rows(), 0u);
  std::vector<int64_t> indices(merge.num_rows());
  merge.WriteTo(indices.data(), /*values=*/nullptr, /*divisor=*/0, workspace_.parallel_for());
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 5}));
}

TEST_P(HostMergePassTest, EqualsAddingRowAfterRowToTheLastBit) {
  const unsigned seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const size_t width = random() % 5;
    const int64_t ranges[] = {1, 50, 3000, int64_t{1} << 40, int64_t{1} << 62};
    const int64_t range = ranges[random() % 5];
    std::vector<Slices> gradients;
    for (size_t g = 0; g < 1 + random() % 6; ++g) {
      const auto make_slices = random() % 2 == 0 ? RandomSlices : AscendingSlices;
      gradients.push_back(make_slices(&random, random() % 4000, range, width));
    }
    std::vector<size_t> steps;
    for (size_t end = random() % 3; end < gradients.size(); end += 1 + random() % 3) {
      steps.push_back(end);
    }
    EXPECT_EQ(MergeInSteps(gradients, steps, width, 0, workspace_),
              Merged(gradients, width, Reduction::kMean));
    EXPECT_EQ(MergeInSteps(gradients, steps, width, 1, workspace_),
              Merged(gradients, width, Reduction::kSum));
  }
}

// Results of this size are written past the caches, except for the parts of a frequent row.
TEST_P(HostMergePassTest, LargeResultsHaveTheSameBits) {
  constexpr size_t kWidth = 64;
  std::mt19937 random(1);
  std::vector<Slices> gradients;
  for (int i = 0; i < 3; ++i) gradients.push_back(RandomSlices(&random, 70000, 1 << 18, kWidth));
  for (size_t i = 0; i < gradients[1].indices.size(); i += 5) gradients[1].indices[i] = 77;
  for (const std::vector<size_t>& steps : {std::vector<size_t>{}, {1, 2}}) {
    EXPECT_EQ(MergeInSteps(gradients, steps, kWidth, 3, workspace_),
              Merged(gradients, kWidth, Reduction::kGlobalMean));
  }
}

TEST_P(HostMergePassTest, ManyEntriesOfOneRowAmongFewOfOthers) {
  std::mt19937 random(1);
  Slices hot = RandomSlices(&random, 100000, 1000000, 2);
  for (size_t i = 0; i < hot.indices.size(); i += 2) hot.indices[i] = 77;
  const std::vector<Slices> gradients = {hot, RandomSlices(&random, 10, 100, 2), hot};
  EXPECT_EQ(MergeInSteps(gradients, {1}, 2, 0, workspace_), Merged(gradients, 2, Reduction::kMean));
}

// Returns indices in clusters of clusters, and isolated ones far away from all others.
Slices ClusteredSlices(std::mt19937* random, size_t size) {
  Slices result = RandomSlices(random, size, 3000, 2);
  for (size_t i = 0; i < size; ++i) {
    const int64_t slot = static_cast<int64_t>((*random)() % 3);
    if (i % 4 > 0) result.indices[i] += slot << 58;
    if (i % 4 > 1) result.indices[i] += slot << 40;
    if (i % 1000 == 0) result.indices[i] = (int64_t{1} << 62) + static_cast<int64_t>(i);
  }
  return result;
}

TEST_P(HostMergePassTest, RowsInClustersAreMergedLikeOthers) {
  std::mt19937 random(3);
  const std::vector<Slices> gradients = {
      ClusteredSlices(&random, 40000), ClusteredSlices(&random, 9000),
      RandomSlices(&random, 40000, 500, 2), ClusteredSlices(&random, 40000)};
  for (const std::vector<size_t>& steps : {std::vector<size_t>{}, {1}, {2, 3}, {1, 2, 3}, {4}}) {
    EXPECT_EQ(MergeInSteps(gradients, steps, 2, 0, workspace_),
              Merged(gradients, 2, Reduction::kMean));
  }
}

TEST_P(HostMergePassTest, NothingMergedWithNothingIsNothing) {
  EXPECT_EQ(MergeInSteps({}, {}, 3, 0, workspace_), Slices());
  EXPECT_EQ(MergeInSteps({Slices(), Slices()}, {1}, 3, 0, workspace_), Slices());
}

TEST_P(HostMergePassTest, NarrowTypesAreAddedInFloat32AndRoundedOnce) {
  // 4096 + 1 + 1 + ... stays 4096 if each sum is rounded to float16.
  constexpr size_t kCount = 64;
  std::vector<std::vector<int64_t>> indices(kCount, {3});
  std::vector<Float16> values(kCount, Float16::FromFloat(1));
  values[0] = Float16::FromFloat(4096);
  std::vector<HostSource> sources;
  for (size_t i = 0; i < kCount; ++i) sources.push_back({{indices[i].data(), 1, 3, 3}, &values[i]});
  const std::vector<HostSource> first(sources.begin(), sources.begin() + 40);
  const std::vector<HostSource> rest(sources.begin() + 40, sources.end());
  const SliceLayout layout{ElementType::kFloat16, 1};
  MergedRows merged;
  HostMergePass fold(layout, first, &merged, workspace_);
  ASSERT_EQ(fold.num_new_rows(), 1u);
  fold.MergeInto(workspace_);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(*static_cast<const float*>(merged.sums[0]), 4096 + 39);
  EXPECT_EQ(merged.weights[0], 40);
  int64_t row = -1;
  Float16 total{0};
  HostMergePass(layout, rest, &merged, workspace_)
      .WriteTo(&row, &total, 1, workspace_.parallel_for());
  EXPECT_EQ(row, 3);
  EXPECT_EQ(Float16::ToFloat(total), 4160);  // This is 4159, rounded to even once.
}

// Frees what was reported as read, and overwrites what was reported as unused, so that the test
// notices if one is read again, or the other was in use.
TEST_P(HostMergePassTest, WhatIsWrittenIsNotReadAgainAndWhatFollowsIsUnused) {
  std::mt19937 random(3);
  const std::vector<Slices> gradients = {RandomSlices(&random, 20000, 1 << 17, 2),
                                         RandomSlices(&random, 9000, 1 << 17, 2)};
  const SliceLayout layout{ElementType::kFloat32, 2};
  MergedRows merged;
  HostMergePass(layout, {SourceOf(gradients[0])}, &merged, workspace_).MergeInto(workspace_);
  HostMergePass merge(layout, {SourceOf(gradients[1])}, &merged, workspace_);
  Slices result;
  result.indices.resize(merge.num_rows());
  result.values.resize(merge.num_rows() * 2);
  size_t num_calls = 0;
  const auto spoil = [&](size_t num_rows) {
    ++num_calls;
    const int64_t last_index = result.indices[num_rows - 1];
    for (size_t i = 0; i < merged.size() && merged.indices[i] <= last_index; ++i) {
      std::fill_n(static_cast<float*>(merged.sums[i]), 2, -99.0f);
    }
    const auto num_written = static_cast<ptrdiff_t>(num_rows);
    std::fill(result.indices.begin() + num_written, result.indices.end(), -1);
    std::fill(result.values.begin() + 2 * num_written, result.values.end(), -99.0f);
  };
  merge.WriteTo(result.indices.data(), result.values.data(), 0, workspace_.parallel_for(), 5,
                spoil);
  EXPECT_EQ(num_calls, 4u);
  EXPECT_EQ(result, Merged(gradients, 2, Reduction::kMean));
}

INSTANTIATE_TEST_SUITE_P(SerialAndThreaded, HostMergePassTest, testing::Bool());

}  // namespace
}  // namespace condacc
