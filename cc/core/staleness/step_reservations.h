// Counts the steps that a step variable is about to take.
#ifndef CONDACC_CORE_STALENESS_STEP_RESERVATIONS_H_
#define CONDACC_CORE_STALENESS_STEP_RESERVATIONS_H_

#include <algorithm>
#include <cstdint>

#include "cc/core/base/reached.h"
#include "cc/core/base/saturated.h"

namespace condacc {

// Each reservation stands for one increment of a variable, which is made elsewhere. The increment
// may happen at any time until the reservation ends, or not at all if the update fails. So the
// variable alone does not tell how many increments are still to come.
//
// The *expected step* is the value that the variable has when all open reservations have been
// applied. Two bounds on it are kept, `lowest_` and `highest_`:
// - A variable that is at `step` while `num_open_` reservations are open will reach at least `step`
//   and at most `step + num_open_`. ExpectedStep() narrows the bounds accordingly.
// - A new reservation adds one increment, so Reserve() adds 1 to both bounds.
// - A reservation that was applied has made its increment, so the bounds stay.
// - A reservation that failed may or may not have made its increment: `lowest_` drops by 1,
//   `highest_` stays.
// Unreserved increments and other writes are noticed as soon as they contradict the bounds, which
// are then reset from the variable.
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
// failed before its increment, or else the variable would be at 12. (3) The increment is B's, and
// C's is still to come (13), or it is C's (12). The higher step counts, which may drop one update
// too many but never accepts one too many. After C has ended, ExpectedStep() makes the bounds equal
// again. (4) The bounds are reset, because fewer increments were reserved.
//
// Not thread-safe.
class StepReservations {
 public:
  // Returns the expected step, given that the variable is at `step` now, or the highest possible
  // one if it is uncertain. It is exact if there are no other writes and no failures.
  int64_t ExpectedStep(int64_t step) {
    const int64_t furthest = SaturatedAdd(step, num_open_);
    lowest_ = std::max(lowest_, step);
    highest_ = std::min(highest_, furthest);
    CONDACC_REACHED("expect", lowest_ < highest_ ? 1 : lowest_ == highest_ ? 0 : 2);
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

  // Ends a reservation. A reservation that was not applied has failed, before or after its
  // increment.
  void End(bool applied) {
    CONDACC_REACHED("reservation ends", applied, num_open_ > 1);
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
