#include "cc/core/sparse/bucket_memory.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "cc/core/sparse/index_buckets.h"
#include "gtest/gtest.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {
namespace {

constexpr size_t kItemBytes = 100;
constexpr size_t kNumBuckets = 64;

// Bucket b has the index b and, if b is odd, one item.
std::vector<size_t> Starts() {
  std::vector<size_t> starts;
  for (size_t b = 0; b <= kNumBuckets; ++b) starts.push_back(b / 2);
  return starts;
}

IndexBuckets Buckets() { return IndexBuckets({0, kNumBuckets - 1}, {}, kNumBuckets); }

TEST(BucketMemoryTest, BucketsAreInAscendingOrder) {
  TestWorkspace workspace;
  const BucketMemory memory(Buckets(), Starts(), kItemBytes, workspace);
  for (size_t b = 0; b < kNumBuckets; ++b) {
    EXPECT_EQ(memory.Of(b), memory.Of(0) + b / 2 * kItemBytes) << b;
  }
}

TEST(BucketMemoryTest, FreesWhatIsBelowAnIndex) {
  TestWorkspace workspace;
  const int64_t num_live = TestBuffer::num_live();
  const int64_t num_freed = TestBuffer::num_freed_bytes();
  {
    const BucketMemory memory(Buckets(), Starts(), kItemBytes, workspace);
    const auto num_freed_below = [&](int64_t index) {
      memory.FreeBelow(index);
      return TestBuffer::num_freed_bytes() - num_freed;
    };
    EXPECT_EQ(num_freed_below(0), 0);
    EXPECT_EQ(num_freed_below(1), 0) << "bucket 0 has no item";
    EXPECT_EQ(num_freed_below(4), 2 * kItemBytes);
    EXPECT_EQ(num_freed_below(4), 2 * kItemBytes);
    EXPECT_EQ(num_freed_below(kNumBuckets - 1), (kNumBuckets / 2 - 1) * kItemBytes);
    EXPECT_EQ(num_freed_below(kNumBuckets), kNumBuckets / 2 * kItemBytes)
        << "later merges have higher indices";
    EXPECT_EQ(TestBuffer::num_live(), num_live + 1);
  }
  EXPECT_EQ(TestBuffer::num_live(), num_live);
}

TEST(BucketMemoryTest, ThereMayBeNoItems) {
  TestWorkspace workspace;
  const std::vector<size_t> starts(kNumBuckets + 1, 0);
  const BucketMemory memory(Buckets(), starts, kItemBytes, workspace);
  EXPECT_NE(memory.Of(0), nullptr);
  EXPECT_EQ(memory.Of(kNumBuckets - 1), memory.Of(0));
  memory.FreeBelow(kNumBuckets);
}

TEST(BucketMemoryTest, ThrowsIfMemoryIsRefused) {
  TestWorkspace workspace;
  const int64_t num_live = TestBuffer::num_live();
  workspace.RefuseAllocation(0);
  EXPECT_THROW(BucketMemory(Buckets(), Starts(), kItemBytes, workspace), std::bad_alloc);
  EXPECT_EQ(TestBuffer::num_live(), num_live);
}

}  // namespace
}  // namespace condacc
