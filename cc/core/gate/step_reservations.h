// Counts the steps that a step variable is about to take.
#ifndef CONDACC_CORE_GATE_STEP_RESERVATIONS_H_
#define CONDACC_CORE_GATE_STEP_RESERVATIONS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace condacc {

// Integers that stop at the ends of their range instead of leaving it.
inline int64_t SaturatedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}
inline int64_t SaturatedSubtract(int64_t a, int64_t b) {
  int64_t difference;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b > 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// Each reservation stands for one increment of a variable that others make: it may come at any time
// until the reservation ends, and does not come if it fails. So from the variable alone nobody can
// tell how many are still to come; but it bounds their number, and what is known from before and
// from the ends of reservations narrows that. Increments that nobody reserved, and other writes,
// are noticed as soon as they contradict what is known. Not thread-safe.
class StepReservations {
 public:
  // What the variable, being `step` now, comes to when all that is reserved has been applied. Where
  // that is not certain, the highest it may be; without foreign writes or failures it is exact.
  int64_t ExpectedStep(int64_t step) {
    const int64_t furthest = SaturatedAdd(step, num_open_);
    lowest_ = std::max(lowest_, step);
    highest_ = std::min(highest_, furthest);
    if (lowest_ > highest_) {
      lowest_ = step;
      highest_ = furthest;
    }
    return highest_;
  }

  // After ExpectedStep(), with nothing in between.
  void Reserve() {
    ++num_open_;
    lowest_ = SaturatedAdd(lowest_, 1);
    highest_ = SaturatedAdd(highest_, 1);
  }

  // Ends a reservation: its increment was made, or else it failed, before or after the increment.
  void End(bool applied) {
    --num_open_;
    if (!applied) lowest_ = SaturatedAdd(lowest_, -1);
  }

  int64_t num_open() const { return num_open_; }

 private:
  int64_t num_open_ = 0;
  int64_t lowest_ = 0;
  int64_t highest_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_GATE_STEP_RESERVATIONS_H_
