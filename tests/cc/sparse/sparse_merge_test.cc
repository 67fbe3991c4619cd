#include "cc/core/sparse/sparse_merge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <new>
#include <random>
#include <vector>

#include "cc/core/base/float16.h"
#include "cc/core/sparse/row_groups.h"
#include "gtest/gtest.h"
#include "tests/cc/base/parallel_for_support.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

std::vector<RowSource> SourcesOf(const std::vector<Rows>& gradients) {
  std::vector<RowSource> sources;
  for (const Rows& gradient : gradients) sources.push_back(SourceOf(gradient));
  return sources;
}

// Merges the first gradients in steps, and the rest on the way out.
Rows MergeInSteps(const std::vector<Rows>& gradients, const std::vector<size_t>& steps,
                  size_t width, int64_t divisor, const ParallelFor& parallel_for) {
  const RowLayout layout{ElementType::kFloat32, width};
  MergedRows merged;
  std::list<std::vector<float>> chunks;
  size_t begin = 0;
  for (size_t end : steps) {
    const std::vector<Rows> step(gradients.begin() + begin, gradients.begin() + end);
    const std::vector<RowSource> sources = SourcesOf(step);
    std::vector<RowEntry> entries = EntriesFor(sources);
    SparseMerge merge(layout, merged, sources, entries.data(), parallel_for);
    chunks.emplace_back(merge.num_new_rows() * width + 1);
    merge.MergeInto(&merged, chunks.back().data(), parallel_for);
    begin = end;
  }
  const std::vector<Rows> rest(gradients.begin() + begin, gradients.end());
  const std::vector<RowSource> sources = SourcesOf(rest);
  std::vector<RowEntry> entries = EntriesFor(sources);
  SparseMerge merge(layout, merged, sources, entries.data(), parallel_for);
  Rows result;
  result.rows.resize(merge.num_rows());
  result.values.resize(merge.num_rows() * width);
  merge.WriteTo(result.rows.data(), result.values.data(), divisor, parallel_for);
  return result;
}

class SparseMergeTest : public testing::TestWithParam<bool> {
 protected:
  ParallelFor parallel_for() const { return GetParam() ? ParallelFor(ThreadedFor) : SerialFor; }
};

// Sums without elements may lie nowhere.
TEST_P(SparseMergeTest, RowsWithoutWidthAreMergedAndWrittenWithoutMemory) {
  const RowLayout layout{ElementType::kFloat32, 0};
  MergedRows merged;
  const Rows gradient{{5, 1}, {}};
  const std::vector<RowSource> sources = {SourceOf(gradient)};
  std::vector<RowEntry> entries = EntriesFor(sources);
  SparseMerge fold(layout, merged, sources, entries.data(), parallel_for());
  EXPECT_EQ(fold.num_new_rows(), 2u);
  fold.MergeInto(&merged, /*new_sums=*/nullptr, parallel_for());
  const std::vector<RowSource> none;
  SparseMerge merge(layout, merged, none, /*entries=*/nullptr, parallel_for());
  EXPECT_EQ(merge.num_new_rows(), 0u);
  std::vector<int64_t> rows(merge.num_rows());
  merge.WriteTo(rows.data(), /*values=*/nullptr, /*divisor=*/0, parallel_for());
  EXPECT_EQ(rows, (std::vector<int64_t>{1, 5}));
}

TEST_P(SparseMergeTest, EqualsAddingRowAfterRowToTheLastBit) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const size_t width = random() % 5;
    const int64_t ranges[] = {1, 50, 3000, int64_t{1} << 40, int64_t{1} << 62};
    const int64_t range = ranges[random() % 5];
    std::vector<Rows> gradients;
    for (size_t g = 0; g < 1 + random() % 6; ++g) {
      gradients.push_back(RandomRows(&random, random() % 4000, range, width));
    }
    std::vector<size_t> steps;
    for (size_t end = random() % 3; end < gradients.size(); end += 1 + random() % 3) {
      steps.push_back(end);
    }
    EXPECT_EQ(MergeInSteps(gradients, steps, width, 0, parallel_for()),
              Merged(gradients, width, SparseReduction::kMean));
    EXPECT_EQ(MergeInSteps(gradients, steps, width, 1, parallel_for()),
              Merged(gradients, width, SparseReduction::kSum));
  }
}

TEST_P(SparseMergeTest, ManyEntriesOfOneRowAmongFewOfOthers) {
  std::mt19937 random(1);
  Rows hot = RandomRows(&random, 100000, 1000000, 2);
  for (size_t i = 0; i < hot.rows.size(); i += 2) hot.rows[i] = 77;
  const std::vector<Rows> gradients = {hot, RandomRows(&random, 10, 100, 2), hot};
  EXPECT_EQ(MergeInSteps(gradients, {1}, 2, 0, parallel_for()),
            Merged(gradients, 2, SparseReduction::kMean));
}

// Rows in clusters of clusters, and single rows far away from all others.
Rows ClusteredRows(std::mt19937* random, size_t size) {
  Rows result = RandomRows(random, size, 3000, 2);
  for (size_t i = 0; i < size; ++i) {
    const int64_t slot = static_cast<int64_t>((*random)() % 3);
    if (i % 4 > 0) result.rows[i] += slot << 58;
    if (i % 4 > 1) result.rows[i] += slot << 40;
    if (i % 1000 == 0) result.rows[i] = (int64_t{1} << 62) + static_cast<int64_t>(i);
  }
  return result;
}

TEST_P(SparseMergeTest, RowsInClustersAreMergedLikeOthers) {
  std::mt19937 random(3);
  const std::vector<Rows> gradients = {ClusteredRows(&random, 40000), ClusteredRows(&random, 9000),
                                       RandomRows(&random, 40000, 500, 2),
                                       ClusteredRows(&random, 40000)};
  for (const std::vector<size_t>& steps : {std::vector<size_t>{}, {1}, {2, 3}, {1, 2, 3}, {4}}) {
    EXPECT_EQ(MergeInSteps(gradients, steps, 2, 0, parallel_for()),
              Merged(gradients, 2, SparseReduction::kMean));
  }
}

TEST_P(SparseMergeTest, NoBucketOfClusteredRowsIsFarLargerThanOthers) {
  std::mt19937 random(4);
  Rows rows = RandomRows(&random, 300000, 1 << 20, 0);
  rows.rows.back() = int64_t{1} << 62;
  std::vector<int64_t> slots = rows.rows;
  for (size_t i = 0; i < slots.size(); ++i) slots[i] |= static_cast<int64_t>(i % 20) << 50;
  rows.values.clear();
  for (const std::vector<int64_t>& each : {rows.rows, slots}) {
    const Rows list{each, {}};
    std::vector<RowEntry> entries(each.size());
    for (bool merged_before : {false, true}) {
      std::vector<int64_t> others = each;
      std::sort(others.begin(), others.end());
      others.erase(std::unique(others.begin(), others.end()), others.end());
      const RowList old = {others.data(), others.size(), others.front(), others.back()};
      const RowGroups groups({SourceOf(list).list}, merged_before ? old : RowList(), entries.data(),
                             parallel_for());
      ASSERT_EQ(groups.num_entries(), each.size());
      size_t largest = 0;
      for (size_t b = 0; b < groups.num_buckets(); ++b) {
        largest = std::max(largest, static_cast<size_t>(groups.end(b) - groups.begin(b)));
      }
      EXPECT_LE(largest, 9000u);
      // Rows ascend, and the entries of a row are in order of arrival.
      for (size_t i = 1; i < entries.size(); ++i) {
        ASSERT_TRUE(entries[i - 1].row < entries[i].row ||
                    (entries[i - 1].row == entries[i].row &&
                     entries[i - 1].position < entries[i].position));
      }
    }
  }
}

// Merged rows without new entries must be shared out as well: walking them takes as long.
TEST_P(SparseMergeTest, MergedRowsInClustersAreSharedOutToBuckets) {
  std::vector<int64_t> others;
  for (int64_t row = 0; row < 100000; ++row) others.push_back(row);
  others.push_back(int64_t{1} << 62);
  const RowList old = {others.data(), others.size(), others.front(), others.back()};
  const Rows list{{17}, {}};
  std::vector<RowEntry> entries(1);
  const RowGroups groups({SourceOf(list).list}, old, entries.data(), parallel_for());
  size_t total = 0;
  for (size_t b = 0; b < groups.num_buckets(); ++b) {
    const size_t size = groups.num_merged_before(b + 1) - groups.num_merged_before(b);
    EXPECT_LE(size, 9000u);
    total += size;
  }
  EXPECT_EQ(total, others.size());
}

TEST_P(SparseMergeTest, NothingMergedWithNothingIsNothing) {
  EXPECT_EQ(MergeInSteps({}, {}, 3, 0, parallel_for()), Rows());
  EXPECT_EQ(MergeInSteps({Rows(), Rows()}, {1}, 3, 0, parallel_for()), Rows());
}

TEST_P(SparseMergeTest, NarrowTypesAreAddedInFloat32AndRoundedOnce) {
  // 4096 + 1 + 1 + ... stays 4096 if each sum is rounded to float16.
  constexpr size_t kCount = 64;
  std::vector<std::vector<int64_t>> rows(kCount, {3});
  std::vector<Float16> values(kCount, Float16::FromFloat(1));
  values[0] = Float16::FromFloat(4096);
  std::vector<RowSource> sources;
  for (size_t i = 0; i < kCount; ++i) sources.push_back({{rows[i].data(), 1, 3, 3}, &values[i]});
  const std::vector<RowSource> first(sources.begin(), sources.begin() + 40);
  const std::vector<RowSource> rest(sources.begin() + 40, sources.end());
  const RowLayout layout{ElementType::kFloat16, 1};
  MergedRows merged;
  float sum = -1;
  std::vector<RowEntry> entries(kCount);
  SparseMerge fold(layout, merged, first, entries.data(), parallel_for());
  ASSERT_EQ(fold.num_new_rows(), 1u);
  fold.MergeInto(&merged, &sum, parallel_for());
  EXPECT_EQ(sum, 4096 + 39);
  EXPECT_EQ(merged.counts, std::vector<int64_t>{40});
  int64_t row = -1;
  Float16 total{0};
  SparseMerge(layout, merged, rest, entries.data(), parallel_for())
      .WriteTo(&row, &total, 1, parallel_for());
  EXPECT_EQ(row, 3);
  EXPECT_EQ(Float16::ToFloat(total), 4160);  // 4159, rounded to even once
}

// What a slice was told to have been read is overwritten: nothing of it may be needed again.
TEST_P(SparseMergeTest, WhatIsWrittenIsNotReadAgain) {
  std::mt19937 random(3);
  const std::vector<Rows> gradients = {RandomRows(&random, 20000, 1 << 17, 2),
                                       RandomRows(&random, 9000, 1 << 17, 2)};
  const RowLayout layout{ElementType::kFloat32, 2};
  MergedRows merged;
  const std::vector<RowSource> first = {SourceOf(gradients[0])};
  std::vector<RowEntry> entries = EntriesFor(first);
  SparseMerge fold(layout, merged, first, entries.data(), parallel_for());
  std::vector<float> sums(fold.num_new_rows() * 2);
  const std::vector<RowMark> marks = fold.MarkNewRows(16);
  fold.MergeInto(&merged, sums.data(), parallel_for());
  ASSERT_GE(marks.size(), 8u);
  ASSERT_LE(marks.size(), 16u);
  for (const RowMark& mark : marks) {
    const auto place = std::lower_bound(merged.rows.begin(), merged.rows.end(), mark.row);
    EXPECT_EQ(mark.position, static_cast<size_t>(place - merged.rows.begin()));
  }
  const std::vector<RowSource> second = {SourceOf(gradients[1])};
  entries = EntriesFor(second);
  SparseMerge merge(layout, merged, second, entries.data(), parallel_for());
  Rows result;
  result.rows.resize(merge.num_rows());
  result.values.resize(merge.num_rows() * 2);
  size_t num_slices = 0;
  const auto spoil = [&](int64_t row, size_t num_entries) {
    ++num_slices;
    const auto end = std::lower_bound(merged.rows.begin(), merged.rows.end(), row);
    std::fill(sums.begin(), sums.begin() + 2 * (end - merged.rows.begin()), -99.0f);
    std::fill_n(entries.begin(), num_entries, RowEntry{-1, ~0u, ~0u});
  };
  merge.WriteTo(result.rows.data(), result.values.data(), 0, parallel_for(), spoil);
  EXPECT_GE(num_slices, 4u);
  EXPECT_EQ(result, Merged(gradients, 2, SparseReduction::kMean));
}

INSTANTIATE_TEST_SUITE_P(SerialAndThreaded, SparseMergeTest, testing::Bool());

TEST(RowGroups, AreInOrderOfRowsAndThenOfArrival) {
  const std::vector<int64_t> a = {5, 1, 5};
  const std::vector<int64_t> b = {1, int64_t{1} << 60, 0};
  RowEntry memory[6];
  const RowGroups groups({{a.data(), 3, 1, 5}, {b.data(), 3, 0, int64_t{1} << 60}}, RowList(),
                         memory, SerialFor);
  std::vector<std::vector<int64_t>> entries;
  for (size_t bucket = 0; bucket < groups.num_buckets(); ++bucket) {
    for (const RowEntry* e = groups.begin(bucket); e < groups.end(bucket); ++e) {
      EXPECT_GE(e->row, groups.first_row(bucket));
      entries.push_back({e->row, e->gradient, e->position});
    }
  }
  const std::vector<std::vector<int64_t>> expected = {{0, 1, 2}, {1, 0, 1}, {1, 1, 0},
                                                      {5, 0, 0}, {5, 0, 2}, {1LL << 60, 1, 1}};
  EXPECT_EQ(entries, expected);
}

TEST(ParallelForThrowing, PassesOnThatMemoryIsShort) {
  const auto body = [](size_t begin, size_t) {
    if (begin == 2) throw std::bad_alloc();
  };
  EXPECT_THROW(ParallelForThrowing(ThreadedFor, 4, 1, body), std::bad_alloc);
  EXPECT_NO_THROW(ParallelForThrowing(ThreadedFor, 2, 1, body));
}

}  // namespace
}  // namespace condacc
