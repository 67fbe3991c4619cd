// The C++ tests check the invariants of the core, in headers as well as in its libraries.
#include "cc/core/base/invariant.h"

#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

TEST(InvariantDeathTest, AbortsIfItIsBroken) {
  const int number = 2;
  CONDACC_INVARIANT(number == 2);
  EXPECT_DEATH(CONDACC_INVARIANT(number == 3),
               "invariant_test.cc:[0-9]+: broken invariant: number == 3");
}

TEST(InvariantDeathTest, IsCheckedInTheLibraries) {
  const SumOptions options;
  DenseSum sum(options);
  EXPECT_DEATH(sum.BeginFold(), "dense_sum.cc:[0-9]+: broken invariant: num_pending\\(\\) > 0");
}

}  // namespace
}  // namespace condacc
