// When a sparse sum folds.
#ifndef CONDACC_CORE_SPARSE_FOLD_RULES_H_
#define CONDACC_CORE_SPARSE_FOLD_RULES_H_

#include <cstddef>

#include "cc/core/accumulator/round_sum.h"

namespace condacc {

// How large a sparse sum is. Bytes of gradients are those that count against the budget.
struct SparseSumSize {
  size_t num_pending = 0;    // Gradients.
  size_t pending_bytes = 0;  // Bytes of these gradients.
  size_t folding_bytes = 0;  // Bytes of the gradients that the current fold merges.
  // Number of rows, and bytes of their sums, that the folds so far have merged.
  size_t num_merged = 0;
  size_t merged_bytes = 0;
};

// Returns what to do about the pending gradients of a sum of this size. Of the options, it reads
// only `fold_bytes`, `long_fold_bytes` and the budget.
Advice AdviseFold(const SparseSumSize& size, const RoundSum::NextTake& next_take,
                  const SumOptions& options);

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_FOLD_RULES_H_
