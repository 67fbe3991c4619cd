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
// applied. Its upper bound is kept, `expected_`:
// - A variable that is at `step` while `num_open_` reservations are open will reach at most
//   `step + num_open_`. ExpectedStep() lowers the bound accordingly.
// - A new reservation adds one increment, so Reserve() adds 1 to the bound.
// - A reservation that was applied has made its increment, and one that has failed may have made
//   it. So the bound stays.
// Unreserved increments and other writes are noticed as soon as they contradict the bound, which is
// then reset from the variable. Without them and without failures the bound is exact.
//
// For example, with a variable that is at 10 at first:
//
//   event                                       variable  open  expected_
//   update A is decided on and reserves            10      1        11
//   update B is decided on and reserves            10      2        12
//   A increments; ExpectedStep(11) is called       11      2        12   (1)
//   A ends, applied                                11      1        12
//   update C is decided on and reserves            11      2        13
//   B fails                                        11      1        13
//   either: ExpectedStep(11) is called             11      1        12   (2)
//   or: an increment; ExpectedStep(12) is called   12      1        13   (3)
//   or: a write; ExpectedStep(100) is called      100      1       101   (4)
//
// (1) The variable alone would allow 13: A's increment has come, but A is still open. (2) B failed
// before its increment, or else the variable would be at 12. (3) The increment is B's, and C's is
// still to come (13), or it is C's (12). The higher step counts, which may drop one update too many
// but never accepts one too many. After C has ended, ExpectedStep() is exact again. (4) The bound
// is reset, because fewer increments were reserved.
//
// Not thread-safe.
class StepReservations {
 public:
  // Returns the expected step, given that the variable is at `step` now, or the highest possible
  // one if it is uncertain. It is exact if there are no other writes and no failures.
  int64_t ExpectedStep(int64_t step) {
    const int64_t furthest = SaturatedAdd(step, num_open_);
    CONDACC_REACHED("expect", step > expected_ ? 2 : furthest < expected_ ? 1 : 0);
    if (step > expected_) expected_ = furthest;
    expected_ = std::min(expected_, furthest);
    return expected_;
  }

  // Opens a reservation. ExpectedStep() must have been called just before, with nothing in between.
  void Reserve() {
    ++num_open_;
    expected_ = SaturatedAdd(expected_, 1);
  }

  // Ends a reservation, whose update was applied or has failed, before or after its increment.
  void End() {
    CONDACC_REACHED("reservation ends", num_open_ > 1);
    --num_open_;
  }

  int64_t num_open() const { return num_open_; }

 private:
  int64_t num_open_ = 0;
  int64_t expected_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_STALENESS_STEP_RESERVATIONS_H_
