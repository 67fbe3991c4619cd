#include "cc/core/sparse/index_buckets.h"

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
  const IndexBuckets buckets({100, 227}, 16);
  EXPECT_EQ(buckets.size(), 16u);
  ExpectBucketsHold(buckets, {100, 107, 108, 200, 227});
  EXPECT_EQ(buckets.BucketOf(107), 0u);
  EXPECT_EQ(buckets.BucketOf(108), 1u);
}

TEST(IndexBucketsTest, CoversTheWholeRangeOfIndices) {
  const IndexBuckets buckets({0, kMaxIndex}, 4096);
  EXPECT_LE(buckets.size(), 4096u);
  ExpectBucketsHold(buckets, {0, 1, kMaxIndex / 2, kMaxIndex - 1, kMaxIndex});
}

TEST(IndexBucketsTest, DividesABucketByTheRangeOfWhatItHolds) {
  IndexBuckets buckets({0, kMaxIndex}, 4);
  std::vector<size_t> sizes(buckets.size(), 0);
  sizes.front() = 1000;
  sizes.back() = 1;
  buckets.Divide({{0, {5, 1004}, 10}}, sizes);
  EXPECT_GT(buckets.size(), 5u);
  ExpectBucketsHold(buckets, {0, 1, 5, 6, 500, 1004, 1005, kMaxIndex / 5, kMaxIndex});
  EXPECT_EQ(buckets.first_index(0), 0) << "indices that were not counted belong somewhere, too";
  EXPECT_NE(buckets.BucketOf(5), buckets.BucketOf(1004));
}

TEST(IndexBucketsTest, EmptyBucketsBecomePartOfTheOneBefore) {
  IndexBuckets buckets({0, 1023}, 1024);
  std::vector<size_t> sizes(buckets.size(), 0);
  sizes[3] = 7;
  sizes[900] = 7;
  buckets.Divide({}, sizes);
  EXPECT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets.first_index(1), 3);
  EXPECT_EQ(buckets.first_index(2), 900);
}

TEST(IndexBucketsTest, DividesAgainWhatWasDividedBefore) {
  IndexBuckets buckets({0, kMaxIndex}, 8);
  int64_t highest = kMaxIndex / 1024;
  for (int round = 0; round < 5; ++round) {
    const size_t b = buckets.BucketOf(0);
    std::vector<size_t> sizes(buckets.size(), 1);
    buckets.Divide({{b, {0, highest}, 8}}, sizes);
    ExpectBucketsHold(buckets, {0, 1, highest / 2, highest});
    EXPECT_NE(buckets.BucketOf(0), buckets.BucketOf(highest));
    highest /= 64;
  }
}

}  // namespace
}  // namespace condacc
