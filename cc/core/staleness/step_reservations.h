// Counts the steps that a step variable is about to take.
#ifndef CONDACC_CORE_STALENESS_STEP_RESERVATIONS_H_
#define CONDACC_CORE_STALENESS_STEP_RESERVATIONS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace condacc {

// Adds and subtracts integers. A result outside the range of int64_t becomes the nearest end of it.
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

// Each reservation stands for one increment of a variable, which is made by others. The increment
// may come at any time until the reservation ends, and if it fails, it may not come at all. So the
// variable alone does not tell how many increments are still to come.
//
// The *expected step* is the value that the variable has when all open reservations have been
// applied. Two bounds of it are kept, `lowest_` and `highest_`, for these reasons:
// - A variable that is at `step` while `num_open_` reservations are open comes to `step` at least
//   and to `step + num_open_` at most. ExpectedStep() narrows the bounds by that.
// - A new reservation adds one increment, so Reserve() adds 1 to both bounds.
// - A reservation that was applied has made the increment that it stands for: the bounds stay.
// - A reservation that failed has made its increment or not: `lowest_` is 1 less, `highest_` stays.
// Increments that nobody reserved, and other writes, are noticed as soon as they contradict the
// bounds, which then start again from the variable.
//
// For example, with a variable that is at 10 at first:
//
//   event                                       variable  open  [lowest_, highest_]
//   update A is decided on and reserves            10      1        [11, 11]
//   update B is decided on and reserves            10      2        [12, 12]
//   A increments; ExpectedStep(11) is called       11      2        [12, 12]   (1)
//   A ends, applied                                11      1        [12, 12]
//   update C is decided on and reserves            11      2        [13, 13]
//   B fails                                        11      1        [12, 13]
//   either: ExpectedStep(11) is called             11      1        [12, 12]   (2)
//   or: an increment; ExpectedStep(12) is called   12      1        [12, 13]   (3)
//   or: a write; ExpectedStep(100) is called      100      1       [100, 101] (4)
//
// (1) The variable alone would allow [11, 13]: A's increment has come, but A is still open. (2) B
// has failed before its increment, or else the variable would be at 12. (3) The increment is B's,
// and C's is still to come (13); or it is C's (12). The higher step counts, which may drop an
// update too many but never accepts one too many. After C has ended, ExpectedStep() makes the
// bounds equal again. (4) The bounds start again: nobody has reserved so many increments.
//
// Not thread-safe.
class StepReservations {
 public:
  // Returns the expected step, given that the variable is at `step` now. If it is not certain,
  // returns the highest that it may be. Without foreign writes and failures it is exact.
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

  // Opens a reservation. ExpectedStep() must have been called just before, with nothing in between.
  void Reserve() {
    ++num_open_;
    lowest_ = SaturatedAdd(lowest_, 1);
    highest_ = SaturatedAdd(highest_, 1);
  }

  // Ends a reservation. If it was not applied it has failed, before or after its increment.
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

#endif  // CONDACC_CORE_STALENESS_STEP_RESERVATIONS_H_
