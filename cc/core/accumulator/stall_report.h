// A report about an accumulator whose next step does not come.
#ifndef CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_
#define CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_

#include <chrono>
#include <cstdint>

namespace condacc {

// The state of an accumulator and of the take that all other takes wait for. See StallWatch.
struct StallReport {
  // How long takes have waited without any being served. If `is_try`, for how long all gradients
  // have been refused.
  std::chrono::steady_clock::duration waited;
  bool is_try;  // No take waits. One that does not wait has just found too few gradients.
  int64_t num_accumulated;
  int64_t num_required;
  int64_t num_takes_behind;  // Number of takes that wait for this one to end.
  int64_t global_step;
  int64_t num_dropped;
  int64_t last_dropped_step;  // Local step of the last gradient that was dropped; 0 if none was.
  bool has_ever_added;        // A gradient was added at some time.
  bool refuses_all_since;  // Gradients were dropped or refused since the last one that was added.
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_
