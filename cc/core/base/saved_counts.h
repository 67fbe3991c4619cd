// The counts of a gate in checkpoints: a version, the counts, and perhaps other numbers.
#ifndef CONDACC_CORE_BASE_SAVED_COUNTS_H_
#define CONDACC_CORE_BASE_SAVED_COUNTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/status.h"

namespace condacc {

inline constexpr int64_t kSavedCountsVersion = 1;

// Checks what is restored: after the version, `num_counts` counts and at most `max_others` other
// numbers. `title` names the gate in the error.
inline Status CheckSavedCounts(const std::vector<int64_t>& saved, size_t num_counts,
                               size_t max_others, const std::string& title) {
  const auto invalid = [&](const std::string& what) {
    return Status(StatusCode::kInvalidArgument,
                  "The saved state is damaged, or of another gate: " + what + " (" + title + ")");
  };
  if (saved.empty() || saved[0] != kSavedCountsVersion) {
    return invalid("expected version " + std::to_string(kSavedCountsVersion) + ", got " +
                   (saved.empty() ? "nothing" : std::to_string(saved[0])));
  }
  const size_t least = 1 + num_counts;
  if (saved.size() < least || saved.size() > least + max_others) {
    return invalid("expected from " + std::to_string(least) + " to " +
                   std::to_string(least + max_others) + " numbers, got " +
                   std::to_string(saved.size()));
  }
  const int64_t lowest =
      *std::min_element(saved.begin(), saved.begin() + static_cast<ptrdiff_t>(least));
  if (lowest < 0) return invalid("expected counts from 0, got " + std::to_string(lowest));
  return Status();
}

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_SAVED_COUNTS_H_
