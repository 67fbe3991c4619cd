// The report about a take that waits for long.
#ifndef CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_
#define CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_

#include <cstdint>

namespace condacc {

// The state of a take that has waited for longer than its accumulator's Options::stall_timeout, and
// of the accumulator.
struct StallReport {
  int64_t num_accumulated;
  int64_t num_required;
  int64_t global_step;
  int64_t num_dropped;
  int64_t last_dropped_step;  // Local step of the last gradient that was dropped; 0 if none was.
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_
