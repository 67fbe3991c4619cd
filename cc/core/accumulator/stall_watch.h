// Decides when the stall of an accumulator is reported.
#ifndef CONDACC_CORE_ACCUMULATOR_STALL_WATCH_H_
#define CONDACC_CORE_ACCUMULATOR_STALL_WATCH_H_

#include <algorithm>
#include <chrono>
#include <optional>

#include "cc/core/accumulator/stall_report.h"

namespace condacc {

// Measures how long an accumulator has been without progress. A report is due after a timeout, and
// then again each time that the stall has lasted twice as long. There are two kinds of stalls:
// - Takes wait, and none is served. The waits of takes that were cancelled count, so that a program
//   that requests a take again and again with a short timeout of its own gets reports, too.
// - No take waits, but all gradients are refused, while takes that do not wait find too few.
// Not thread-safe.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // If `timeout` is zero, no report is ever due.
  explicit StallWatch(Clock::duration timeout)
      : timeout_(timeout), next_report_(timeout), next_try_report_(timeout) {}

  void NoteAdded() {
    has_ever_added_ = true;
    refused_since_.reset();
    next_try_report_ = timeout_;
  }
  void NoteRefused() {
    if (!refused_since_.has_value()) refused_since_ = Clock::now();
  }
  void NoteServed() {
    if (!is_enabled()) return;
    waited_ = {};
    counted_until_ = Clock::now();
    next_report_ = timeout_;
  }
  // The take that all others wait for was cancelled. It has waited since `began`.
  void NoteCancelled(Clock::time_point began) {
    if (!is_enabled()) return;
    waited_ = WaitedSince(began);
    counted_until_ = Clock::now();
  }

  bool is_enabled() const { return timeout_ > Clock::duration::zero(); }
  // Returns when a report is due for a take that has waited since `began`.
  Clock::duration DueIn(Clock::time_point began) const {
    return std::max(next_report_ - WaitedSince(began), Clock::duration::zero());
  }
  // Returns whether a report is due for such a take. If so, the caller must make it, because the
  // next one is due only when the stall has lasted twice as long.
  bool IsTakeDue(Clock::time_point began) {
    return is_enabled() && IsDue(WaitedSince(began), &next_report_);
  }
  // The same for a take that has found too few gradients and does not wait.
  bool IsTryDue() {
    return is_enabled() && refused_since_.has_value() &&
           IsDue(Clock::now() - *refused_since_, &next_try_report_);
  }
  // Adds to a report what the watch knows. `began` is when the take began to wait, if it waits.
  void Describe(std::optional<Clock::time_point> began, StallReport* report) const {
    report->is_try = !began.has_value();
    report->waited = began.has_value() ? WaitedSince(*began)
                                       : Clock::now() - refused_since_.value_or(Clock::now());
    report->has_ever_added = has_ever_added_;
    report->refuses_all_since = refused_since_.has_value();
  }

 private:
  static bool IsDue(Clock::duration waited, Clock::duration* next_report) {
    if (waited < *next_report) return false;
    *next_report = 2 * waited;
    return true;
  }
  // Returns how long takes have waited since one was served.
  Clock::duration WaitedSince(Clock::time_point began) const {
    return waited_ + (Clock::now() - std::max(began, counted_until_));
  }

  const Clock::duration timeout_;
  Clock::duration waited_{};  // Waits of cancelled takes since a take was served.
  Clock::time_point counted_until_;
  Clock::duration next_report_;
  Clock::duration next_try_report_;
  // When a gradient was refused, if none was added since.
  std::optional<Clock::time_point> refused_since_;
  bool has_ever_added_ = false;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_STALL_WATCH_H_
