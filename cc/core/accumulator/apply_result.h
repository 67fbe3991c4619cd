// The result of an apply.
#ifndef CONDACC_CORE_ACCUMULATOR_APPLY_RESULT_H_
#define CONDACC_CORE_ACCUMULATOR_APPLY_RESULT_H_

#include <cstdint>
#include <utility>

#include "cc/core/base/status.h"

namespace condacc {

// The outcome of an apply. The ops output these numbers. None of them is 0, because an outcome is
// not a truth value.
enum class ApplyOutcome : int32_t {
  kAdded = 1,
  // The local step is lower than the global step. The gradient was counted as dropped.
  kStale = 2,
  // The contributor already has a gradient in the round. This gradient was ignored.
  kDuplicate = 3,
  // The gradient names a contributor, and its local step is higher than the global step. It was
  // refused.
  kAhead = 4,
};

// The outcome of an apply, or the error with which it failed.
class [[nodiscard]] ApplyResult {
 public:
  // Both constructors are implicit, so that a function may return either type.
  // NOLINTBEGIN(google-explicit-constructor)
  ApplyResult(ApplyOutcome outcome) : outcome_(outcome) {}
  ApplyResult(Status error) : status_(std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // Valid only if ok().
  ApplyOutcome outcome() const { return outcome_; }
  bool is_added() const { return ok() && outcome_ == ApplyOutcome::kAdded; }

 private:
  Status status_;
  ApplyOutcome outcome_ = ApplyOutcome::kAdded;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_APPLY_RESULT_H_
