#include "cc/core/sparse/index_buckets.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {
namespace {

constexpr int64_t kMaxIndex = std::numeric_limits<int64_t>::max();

// Every index must be in the range of its bucket.
void ExpectBucketsHold(const IndexBuckets& buckets, const std::vector<int64_t>& indices) {
  for (int64_t index : indices) {
    const size_t b = buckets.BucketOf(index);
    ASSERT_LT(b, buckets.size());
    EXPECT_LE(buckets.first_index(b), index);
    if (b + 1 < buckets.size()) {
      EXPECT_LT(index, buckets.first_index(b + 1));
    }
  }
}

TEST(IndexBucketsTest, DividesARangeIntoEqualParts) {
  const IndexBuckets buckets({100, 227}, {}, 16);
  EXPECT_EQ(buckets.size(), 16u);
  ExpectBucketsHold(buckets, {100, 107, 108, 200, 227});
  EXPECT_EQ(buckets.BucketOf(107), 0u);
  EXPECT_EQ(buckets.BucketOf(108), 1u);
}

TEST(IndexBucketsTest, CoversTheWholeRangeOfIndices) {
  const std::vector<int64_t> indices = {0, 1, kMaxIndex / 2, kMaxIndex - 1, kMaxIndex};
  std::vector<int64_t> crowded(1000, kMaxIndex);
  for (const std::vector<int64_t>& sample : {std::vector<int64_t>{}, indices, crowded}) {
    const IndexBuckets buckets({0, kMaxIndex}, sample, 4096);
    EXPECT_LE(buckets.size(), 4096u);
    ExpectBucketsHold(buckets, indices);
  }
}

// Returns the highest number of these indices in one bucket.
size_t LargestBucket(const IndexBuckets& buckets, const std::vector<int64_t>& indices) {
  std::vector<size_t> sizes(buckets.size(), 0);
  for (int64_t index : indices) ++sizes[buckets.BucketOf(index)];
  return *std::max_element(sizes.begin(), sizes.end());
}

TEST(IndexBucketsTest, AnOutlierAndClustersLeaveNoBucketFarLargerThanOthers) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 10000; ++i) indices.push_back(5 + i + ((i % 3) << 40));
  indices.push_back(kMaxIndex);
  const IndexBuckets buckets({0, kMaxIndex}, indices, 100);
  EXPECT_LE(buckets.size(), 100u);
  EXPECT_LE(LargestBucket(buckets, indices), 102u);
  EXPECT_EQ(buckets.first_index(0), 0) << "indices that were not sampled belong somewhere, too";
  ExpectBucketsHold(buckets, {0, 1, 4, 5, 10004, 10005, int64_t{1} << 41, kMaxIndex});
}

TEST(IndexBucketsTest, BucketsStayEquallyWideIfOnlyOneIndexIsFrequent) {
  std::vector<int64_t> indices(5000, 777);
  for (int64_t i = 0; i < 5000; ++i) indices.push_back(i << 10);
  const IndexBuckets buckets({0, 5000 << 10}, indices, 100);
  ASSERT_GE(buckets.size(), 50u);
  for (size_t b = 2; b < buckets.size(); ++b) {
    EXPECT_EQ(buckets.first_index(b) - buckets.first_index(b - 1), buckets.first_index(1));
  }
}

TEST(IndexBucketsTest, AFrequentIndexInAClusterHasABucketOfItsOwn) {
  for (int64_t frequent : {int64_t{0}, int64_t{777}, kMaxIndex - 1, kMaxIndex}) {
    std::vector<int64_t> indices(5000, frequent);
    for (int64_t i = 0; i < 5000; ++i) indices.push_back((kMaxIndex >> 20) / 5000 * i);
    const IndexBuckets buckets({0, kMaxIndex}, indices, 100);
    const size_t bucket = buckets.BucketOf(frequent);
    EXPECT_EQ(buckets.first_index(bucket), frequent);
    if (frequent < kMaxIndex) {
      EXPECT_EQ(buckets.first_index(bucket + 1), frequent + 1);
    }
    indices.erase(indices.begin(), indices.begin() + 5000);
    EXPECT_LE(LargestBucket(buckets, indices), 202u);
    ExpectBucketsHold(buckets, indices);
  }
}

TEST(IndexBucketsTest, FewIndicesHaveABucketEach) {
  std::vector<int64_t> indices(5000, 3);
  for (int64_t i = 0; i < 10; ++i) indices.push_back(i);
  const IndexBuckets buckets({0, 9}, indices, 100);
  EXPECT_EQ(buckets.size(), 10u);
  ExpectBucketsHold(buckets, indices);
}

}  // namespace
}  // namespace condacc
