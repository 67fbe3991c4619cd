// How an apply ends.
#ifndef CONDACC_CORE_APPLY_RESULT_H_
#define CONDACC_CORE_APPLY_RESULT_H_

#include <cstdint>
#include <utility>

#include "cc/core/status.h"

namespace condacc {

// What became of a gradient. The ops output these numbers.
enum class ApplyOutcome : int32_t {
  kAdded = 0,
  kStale = 1,      // Its local step lies before the global step: dropped, and counted as dropped.
  kDuplicate = 2,  // Its contributor already has a gradient in the round: ignored.
  kAhead = 3,  // It names a contributor, and its local step lies after the global step: refused.
};

// An outcome, or the error for which there is none.
class [[nodiscard]] ApplyResult {
 public:
  // Both convert, so that a function may return either.
  ApplyResult(ApplyOutcome outcome) : outcome_(outcome) {}
  ApplyResult(Status error) : status_(std::move(error)) {}

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // Only if ok().
  ApplyOutcome outcome() const { return outcome_; }
  bool is_added() const { return ok() && outcome_ == ApplyOutcome::kAdded; }

 private:
  Status status_;
  ApplyOutcome outcome_ = ApplyOutcome::kAdded;
};

}  // namespace condacc

#endif  // CONDACC_CORE_APPLY_RESULT_H_
