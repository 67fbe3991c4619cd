#include "cc/core/sparse/fold_rules.h"

#include <algorithm>
#include <cstdint>

namespace condacc {
namespace {

constexpr size_t kMinFold = 4;        // Gradients.
constexpr size_t kMaxPending = 1024;  // Gradients.

// A fold is worth its cost once the pending gradients have this many bytes.
size_t FoldBytes(const SparseSumSize& size, const RoundSum::NextTake& next_take,
                 const SumOptions& options) {
  return std::max(
      {size.merged_bytes / 20 * 9, next_take.last_result_bytes / 4 * 3, options.fold_bytes});
}

// Tiny gradients wait until there are so many of them that the walk of the merged rows is cheap for
// each.
size_t MaxPending(const SparseSumSize& size) { return kMaxPending + size.num_merged / 16; }

// Returns whether the budget is exceeded and there are gradients to fold. Those that are small
// compared with the merged sums are kept, because each fold walks all merged rows.
bool ExceedsBudget(const SparseSumSize& size, const SumOptions& options) {
  return size.num_pending > 1 && options.budget->IsExceeded() &&
         size.pending_bytes >= size.merged_bytes / 16;
}

// Returns whether an apply should wait once this much is pending.
bool IsOverfull(const SparseSumSize& size, const RoundSum::NextTake& next_take,
                const SumOptions& options) {
  // A few very large gradients are no reason to wait, unless others are being merged.
  const size_t enough = size.folding_bytes > 0 ? kMinFold : 2 * kMinFold;
  // Until the first fold, gradients of half as much again as the last result use no more memory
  // than merged sums of that size would with those that are pending beside them. During the first
  // fold, memory for its sums is needed as well.
  const size_t in_sums = size.merged_bytes + size.folding_bytes;
  const size_t total = in_sums + size.pending_bytes;
  const size_t limit = std::max(size.merged_bytes + FoldBytes(size, next_take, options) / 2 * 3,
                                in_sums == 0 ? next_take.last_result_bytes / 2 * 3 : 0);
  return size.num_pending >= enough && (total >= limit || size.num_pending >= 2 * MaxPending(size));
}

// Returns whether everything that is pending can be left for the take: the gradients that it still
// lacks, if they are as large as the pending ones on average, will make no apply wait.
bool CanWaitFor(const RoundSum::NextTake& next_take, const SparseSumSize& size,
                const SumOptions& options) {
  if (next_take.num_missing <= 0) return true;
  // That many gradients make applies wait, whatever their size. RoundSum::kUnknown is such a
  // number.
  if (next_take.num_missing >= static_cast<int64_t>(2 * MaxPending(size))) return false;
  const size_t num_coming = static_cast<size_t>(next_take.num_missing);
  SparseSumSize then = size;
  then.num_pending += num_coming;
  then.pending_bytes += size.pending_bytes / size.num_pending * num_coming;
  return !IsOverfull(then, next_take, options);
}

}  // namespace

Advice AdviseFold(const SparseSumSize& size, const RoundSum::NextTake& next_take,
                  const SumOptions& options) {
  if (ExceedsBudget(size, options) || IsOverfull(size, next_take, options))
    return Advice::kMustFold;
  if (size.num_pending < kMinFold || CanWaitFor(next_take, size, options)) return Advice::kLeave;
  if (size.pending_bytes < FoldBytes(size, next_take, options) &&
      size.num_pending < MaxPending(size)) {
    return Advice::kLeave;
  }
  return size.pending_bytes >= options.long_fold_bytes ? Advice::kFoldElsewhere : Advice::kFold;
}

}  // namespace condacc
