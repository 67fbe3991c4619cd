#include "cc/core/sparse/row_pieces.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "cc/core/sparse/index_buckets.h"
#include "gtest/gtest.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {
namespace {

constexpr size_t kItemBytes = 2 << 20;
constexpr size_t kNumBuckets = 64;

TEST(RowPiecesTest, ArePiecesOfAboutEqualSizeThatAreFreedWhole) {
  TestWorkspace workspace;
  const IndexBuckets buckets({0, kNumBuckets - 1}, {}, kNumBuckets);
  std::vector<size_t> starts;
  for (size_t b = 0; b <= kNumBuckets; ++b) starts.push_back(b / 2);
  const int64_t num_live = TestBuffer::num_live();
  RowPieces pieces(buckets, starts, kItemBytes, workspace);
  ASSERT_EQ(TestBuffer::num_live(), num_live + 16);
  for (size_t b = 0; b + 4 < kNumBuckets; ++b) {
    EXPECT_EQ(pieces.Of(b, starts[b]) == pieces.Of(b + 1, starts[b + 1]),
              starts[b] == starts[b + 1])
        << b;
  }
  pieces.FreeBelow(3);
  EXPECT_EQ(TestBuffer::num_live(), num_live + 16) << "row 3 is in the first piece";
  pieces.FreeBelow(kNumBuckets / 2);
  EXPECT_EQ(TestBuffer::num_live(), num_live + 8);
  pieces.FreeBelow(kNumBuckets - 1);
  EXPECT_EQ(TestBuffer::num_live(), num_live + 1);
  pieces.FreeBelow(kNumBuckets);
  EXPECT_EQ(TestBuffer::num_live(), num_live) << "later merges have higher indices";
}

TEST(RowPiecesTest, BucketsWithoutItemsMakeNoMorePieces) {
  TestWorkspace workspace;
  const IndexBuckets buckets({0, kNumBuckets - 1}, {}, kNumBuckets);
  for (size_t num_items : {0, 1, 40}) {
    std::vector<size_t> starts(kNumBuckets + 1, num_items);
    starts[0] = 0;
    const int64_t num_live = TestBuffer::num_live();
    const RowPieces pieces(buckets, starts, kItemBytes, workspace);
    EXPECT_LE(TestBuffer::num_live(), num_live + 16);
    EXPECT_NE(pieces.Of(0, 0), nullptr);
    EXPECT_NE(pieces.Of(kNumBuckets - 1, num_items), nullptr);
  }
}

TEST(RowPiecesTest, ThrowIfMemoryIsRefused) {
  TestWorkspace workspace;
  const IndexBuckets buckets({0, kNumBuckets - 1}, {}, kNumBuckets);
  std::vector<size_t> starts;
  for (size_t b = 0; b <= kNumBuckets; ++b) starts.push_back(b);
  const int64_t num_live = TestBuffer::num_live();
  workspace.RefuseAllocation(5);
  EXPECT_THROW(RowPieces(buckets, starts, kItemBytes, workspace), std::bad_alloc);
  EXPECT_EQ(TestBuffer::num_live(), num_live);
}

}  // namespace
}  // namespace condacc
