#include "cc/core/sparse/sum_chunk.h"

#include <cstdint>
#include <utility>

#include "cc/core/base/buffer.h"
#include "gtest/gtest.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {
namespace {

TEST(SumChunk, DiscardsUpToTheLastMarkThatIsNotAboveTheRow) {
  Buffer buffer = TestBuffer::Owning(100);
  SumChunk chunk(std::move(buffer), {{10, 2}, {20, 5}, {30, 9}}, 10);
  const auto discarded_below = [&chunk](int64_t row) {
    const int64_t before = TestBuffer::num_discarded();
    chunk.DiscardBelow(row);
    return TestBuffer::num_discarded() - before;
  };
  EXPECT_EQ(discarded_below(9), 0);
  EXPECT_EQ(discarded_below(10), 20);
  EXPECT_EQ(discarded_below(19), 0);
  EXPECT_EQ(discarded_below(35), 70);
}

}  // namespace
}  // namespace condacc
