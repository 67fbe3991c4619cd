#include "cc/core/base/parallel_for.h"

#include <cstddef>
#include <new>

#include "gtest/gtest.h"
#include "tests/cc/base/parallel_for_support.h"

namespace condacc {
namespace {

TEST(ParallelForThrowing, PassesOnThatMemoryIsShort) {
  const auto body = [](size_t begin, size_t) {
    if (begin == 2) throw std::bad_alloc();
  };
  EXPECT_THROW(ParallelForThrowing(ThreadedFor, 4, 1, body), std::bad_alloc);
  EXPECT_NO_THROW(ParallelForThrowing(ThreadedFor, 2, 1, body));
}

}  // namespace
}  // namespace condacc
