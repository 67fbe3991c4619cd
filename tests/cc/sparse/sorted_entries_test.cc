#include "cc/core/sparse/sorted_entries.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/sparse/row_format.h"
#include "gtest/gtest.h"
#include "tests/cc/base/parallel_for_support.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

// If the parameter is true, there are several threads.
class SortedEntriesTest : public testing::TestWithParam<bool> {
 protected:
  TestWorkspace workspace_{GetParam() ? ParallelFor(ThreadedFor) : SerialFor};
};

// Returns the entries of all buckets.
std::vector<SliceEntry> AllOf(const SortedEntries& sorted) {
  std::vector<SliceEntry> entries;
  for (size_t b = 0; b < sorted.num_buckets(); ++b) {
    entries.insert(entries.end(), sorted.begin(b), sorted.end(b));
  }
  return entries;
}

INSTANTIATE_TEST_SUITE_P(SerialAndThreaded, SortedEntriesTest, testing::Bool());

TEST_P(SortedEntriesTest, AreInOrderOfIndicesAndThenOfArrival) {
  const std::vector<int64_t> a = {5, 1, 5};
  const std::vector<int64_t> b = {1, int64_t{1} << 60, 0};
  const SortedEntries sorted({{a.data(), 3, 1, 5, false}, {b.data(), 3, 0, b[1], false}},
                             IndexSpan(), workspace_);
  std::vector<std::vector<int64_t>> entries;
  for (size_t bucket = 0; bucket < sorted.num_buckets(); ++bucket) {
    for (const SliceEntry* e = sorted.begin(bucket); e < sorted.end(bucket); ++e) {
      EXPECT_GE(e->index, sorted.buckets().first_index(bucket));
      entries.push_back({e->index, e->gradient, e->position});
    }
  }
  const std::vector<std::vector<int64_t>> expected = {{0, 1, 2}, {1, 0, 1}, {1, 1, 0},
                                                      {5, 0, 0}, {5, 0, 2}, {1LL << 60, 1, 1}};
  EXPECT_EQ(entries, expected);
}

// Indices whose bits are random in three places, far apart, so that long runs agree in the highest
// bits, and again in those below.
TEST_P(SortedEntriesTest, WideIndicesWithCommonPrefixesAreSorted) {
  std::mt19937_64 random(7);
  std::vector<int64_t> indices(5000);
  for (int64_t& index : indices) {
    const uint64_t bits = random();
    index = static_cast<int64_t>((bits & 1) << 62 | (bits >> 1 & 1) << 40 | (bits >> 2 & 0xFFF));
  }
  std::vector<SliceEntry> expected;
  for (size_t i = 0; i < indices.size(); ++i) {
    expected.push_back({indices[i], 0, static_cast<uint32_t>(i)});
  }
  const auto [min, max] = std::minmax_element(indices.begin(), indices.end());
  const SortedEntries sorted({{indices.data(), indices.size(), *min, *max, false}}, IndexSpan(),
                             workspace_);
  const std::vector<SliceEntry> entries = AllOf(sorted);
  std::stable_sort(expected.begin(), expected.end(),
                   [](const SliceEntry& a, const SliceEntry& b) { return a.index < b.index; });
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(entries[i].index, expected[i].index) << "entry " << i;
    EXPECT_EQ(entries[i].position, expected[i].position) << "entry " << i;
  }
}

// Long ascending gradients in clusters: many entries in a row belong to one bucket, in several
// units of parallel work.
TEST_P(SortedEntriesTest, AscendingGradientsInClustersAreSorted) {
  Slices even, odd;
  for (int64_t cluster = 0; cluster < 3; ++cluster) {
    for (int64_t row = 0; row < 10000; ++row) {
      even.indices.push_back((cluster << 40) + 2 * row);
      odd.indices.push_back((cluster << 40) + 2 * row + 1);
    }
  }
  const std::vector<IndexSpan> gradients = {SourceOf(even).indices, IndexSpan(),
                                            SourceOf(odd).indices};
  ASSERT_TRUE(gradients[0].is_ascending && gradients[2].is_ascending);
  const SortedEntries sorted(gradients, IndexSpan(), workspace_);
  const std::vector<SliceEntry> entries = AllOf(sorted);
  ASSERT_EQ(entries.size(), even.indices.size() + odd.indices.size());
  ASSERT_GT(sorted.num_buckets(), 3u);
  for (size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(entries[i].gradient, i % 2 == 0 ? 0u : 2u);
    ASSERT_EQ(entries[i].position, i / 2);
    ASSERT_EQ(entries[i].index, gradients[entries[i].gradient].data[i / 2]);
  }
}

TEST_P(SortedEntriesTest, NoBucketOfClusteredRowsIsFarLargerThanOthers) {
  std::mt19937 random(4);
  Slices gradient = RandomSlices(&random, 300000, 1 << 20, 0);
  gradient.indices.back() = int64_t{1} << 62;
  std::vector<int64_t> slots = gradient.indices;
  for (size_t i = 0; i < slots.size(); ++i) slots[i] |= static_cast<int64_t>(i % 20) << 50;
  gradient.values.clear();
  for (const std::vector<int64_t>& each : {gradient.indices, slots}) {
    const Slices slices{each, {}};
    for (bool merged_before : {false, true}) {
      std::vector<int64_t> others = each;
      std::sort(others.begin(), others.end());
      others.erase(std::unique(others.begin(), others.end()), others.end());
      const IndexSpan old = {others.data(), others.size(), others.front(), others.back()};
      const SortedEntries sorted({SourceOf(slices).indices}, merged_before ? old : IndexSpan(),
                                 workspace_);
      const std::vector<SliceEntry> entries = AllOf(sorted);
      ASSERT_EQ(sorted.num_entries(), each.size());
      size_t largest = 0;
      for (size_t b = 0; b < sorted.num_buckets(); ++b) {
        largest = std::max(largest, static_cast<size_t>(sorted.end(b) - sorted.begin(b)));
      }
      EXPECT_LE(largest, 9000u);
      // Indices ascend, and the entries of an index are in order of arrival.
      for (size_t i = 1; i < entries.size(); ++i) {
        ASSERT_TRUE(entries[i - 1].index < entries[i].index ||
                    (entries[i - 1].index == entries[i].index &&
                     entries[i - 1].position < entries[i].position));
      }
    }
  }
}

// Merged rows without new entries must be shared out as well: walking them takes as long.
TEST_P(SortedEntriesTest, MergedRowsInClustersAreSharedOutToBuckets) {
  std::vector<int64_t> others;
  for (int64_t row = 0; row < 100000; ++row) others.push_back(row);
  others.push_back(int64_t{1} << 62);
  const IndexSpan old = {others.data(), others.size(), others.front(), others.back()};
  const Slices slices{{17}, {}};
  const SortedEntries sorted({SourceOf(slices).indices}, old, workspace_);
  size_t total = 0;
  for (size_t b = 0; b < sorted.num_buckets(); ++b) {
    const size_t size = sorted.num_merged_before(b + 1) - sorted.num_merged_before(b);
    EXPECT_LE(size, 9000u);
    total += size;
  }
  EXPECT_EQ(total, others.size());
}

TEST_P(SortedEntriesTest, NewRowsAreThoseThatWereNotMergedBefore) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const int64_t ranges[] = {1, 100, 1 << 14, 1 << 20, int64_t{1} << 62};
    const int64_t range = ranges[random() % 5];
    const Slices slices = RandomSlices(&random, 1 + random() % 5000, range, 0);
    const std::vector<int64_t> others = RandomSlices(&random, random() % 5000, range, 0).indices;
    const std::set<int64_t> merged(others.begin(), others.end());
    std::set<int64_t> added(slices.indices.begin(), slices.indices.end());
    for (int64_t index : merged) added.erase(index);
    const std::vector<int64_t> old(merged.begin(), merged.end());
    IndexSpan span;
    if (!old.empty()) span = {old.data(), old.size(), old.front(), old.back()};
    const SortedEntries sorted({SourceOf(slices).indices}, span, workspace_);
    ASSERT_EQ(sorted.num_new_before(sorted.num_buckets()), added.size());
    for (size_t b = 0; b < sorted.num_buckets(); ++b) {
      const auto below =
          std::distance(added.begin(), added.lower_bound(sorted.buckets().first_index(b)));
      ASSERT_EQ(sorted.num_new_before(b), static_cast<size_t>(below));
    }
  }
}

}  // namespace
}  // namespace condacc
