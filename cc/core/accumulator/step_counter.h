// Keeps the global step, and counts the stale gradients that were dropped.
#ifndef CONDACC_CORE_ACCUMULATOR_STEP_COUNTER_H_
#define CONDACC_CORE_ACCUMULATOR_STEP_COUNTER_H_

#include <cstdint>
#include <limits>

namespace condacc {

// A gradient is stale when its local step is lower than the global step. Not thread-safe.
class StepCounter {
 public:
  // Returns whether a gradient of `local_step` is stale, and if so, counts it as dropped.
  bool DropIfStale(int64_t local_step) {
    const bool is_stale = local_step < global_step_;
    if (is_stale) {
      ++num_dropped_;
      last_dropped_step_ = local_step;
    }
    return is_stale;
  }

  // Returns whether `local_step` is higher than the global step: its round has not begun.
  bool IsAhead(int64_t local_step) const { return local_step > global_step_; }

  // Returns false at the highest representable step, which only Set() can change.
  bool CanAdvance() const { return global_step_ < std::numeric_limits<int64_t>::max(); }
  void Advance() { ++global_step_; }

  // Sets the global step and returns the previous one.
  int64_t Set(int64_t global_step) {
    const int64_t previous = global_step_;
    global_step_ = global_step;
    return previous;
  }

  // Sets everything to what was saved.
  void Restore(int64_t global_step, int64_t num_dropped, int64_t last_dropped_step) {
    global_step_ = global_step;
    num_dropped_ = num_dropped;
    last_dropped_step_ = last_dropped_step;
  }

  int64_t global_step() const { return global_step_; }
  int64_t num_dropped() const { return num_dropped_; }
  // Returns the local step of the last gradient that was dropped, and 0 before any was.
  int64_t last_dropped_step() const { return last_dropped_step_; }

 private:
  int64_t global_step_ = 0;
  int64_t num_dropped_ = 0;
  int64_t last_dropped_step_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_STEP_COUNTER_H_
