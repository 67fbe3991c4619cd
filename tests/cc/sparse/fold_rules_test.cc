#include "cc/core/sparse/fold_rules.h"

#include <cstddef>

#include "cc/core/accumulator/round_sum.h"
#include "cc/core/base/hold_budget.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

using NextTake = RoundSum::NextTake;

constexpr NextTake kUnknownTake = {RoundSum::kUnknown, /*is_waiting=*/false};
constexpr NextTake kAfterSome = {RoundSum::kUnknown, false, /*last_result_bytes=*/4000};
constexpr size_t kNotFolding = 0;

struct AdviceCase {
  const char* what;
  SparseSumSize size;  // Pending gradients, their bytes, folding bytes, merged rows and bytes.
  Advice advice;
  NextTake next_take = kUnknownTake;
};

const AdviceCase kAdviceCases[] = {
    {"three gradients are too few", {3, 5000}, Advice::kLeave},
    {"four too small ones", {4, 999}, Advice::kLeave},
    {"four large ones", {4, 1000}, Advice::kFold},
    {"a long fold", {4, 10000}, Advice::kFoldElsewhere},
    {"not yet overfull", {8, 1499}, Advice::kFold},
    {"half as much again as a fold has", {8, 1500}, Advice::kMustFold},
    {"less than 45% of the merged sums", {4, 1799, kNotFolding, 10, 4000}, Advice::kLeave},
    {"45% of the merged sums", {4, 1800, kNotFolding, 10, 4000}, Advice::kFold},
    {"less than 75% of the last result", {4, 2999}, Advice::kLeave, kAfterSome},
    {"75% of the last result", {4, 3000}, Advice::kFold, kAfterSome},
    {"less than 1.5 last results", {8, 5999}, Advice::kFold, kAfterSome},
    {"1.5 last results", {8, 6000}, Advice::kMustFold, kAfterSome},
    {"little beside a fold", {4, 999, 500}, Advice::kLeave},
    {"much beside a fold", {4, 1000, 500}, Advice::kMustFold},
    {"few beside a fold", {3, 5000, 500}, Advice::kLeave},
    {"many tiny ones, less one", {1023, 10}, Advice::kLeave},
    {"many tiny ones", {1024, 10}, Advice::kFold},
    {"more rows, less one", {1033, 10, kNotFolding, 160, 20}, Advice::kLeave},
    {"one more for 16 rows", {1034, 10, kNotFolding, 160, 20}, Advice::kFold},
    {"far too many tiny ones", {2048, 10}, Advice::kMustFold},
    {"a take has enough", {7, 5000}, Advice::kLeave, {0, /*is_waiting=*/true}},
    {"a take has more than enough", {7, 5000}, Advice::kLeave, {-1, /*is_waiting=*/true}},
    {"a take has enough of too much", {8, 5000}, Advice::kMustFold, {0, /*is_waiting=*/true}},
    {"a take adds what still comes", {5, 1000}, Advice::kLeave, {2, /*is_waiting=*/true}},
    {"too much will have come", {5, 1000}, Advice::kFold, {3, /*is_waiting=*/true}},
    {"the next take may be far away", {1024, 10}, Advice::kFold, {2048, /*is_waiting=*/false}},
};

TEST(AdviseFold, GoesByTheSize) {
  SumOptions options;
  options.fold_bytes = 1000;
  options.long_fold_bytes = 10000;
  for (const AdviceCase& each : kAdviceCases) {
    EXPECT_EQ(AdviseFold(each.size, each.next_take, options), each.advice) << each.what;
  }
}

TEST(AdviseFold, FoldsWhatIsWorthItIfTheBudgetIsExceeded) {
  HoldBudget budget(100);
  SumOptions options;
  options.budget = &budget;
  const SparseSumSize enough = {2, 16, kNotFolding, 1, 256};
  EXPECT_EQ(AdviseFold(enough, kUnknownTake, options), Advice::kLeave);
  budget.Add(101);
  EXPECT_EQ(AdviseFold(enough, kUnknownTake, options), Advice::kMustFold);
  EXPECT_EQ(AdviseFold({2, 15, kNotFolding, 1, 256}, kUnknownTake, options), Advice::kLeave);
  EXPECT_EQ(AdviseFold({1, 16, kNotFolding, 1, 256}, kUnknownTake, options), Advice::kLeave);
  budget.Add(-size_t{101});
}

}  // namespace
}  // namespace condacc
