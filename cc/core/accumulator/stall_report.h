// A report about a take that waits too long.
#ifndef CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_
#define CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_

#include <cstdint>

namespace condacc {

// The state of an accumulator and of a take that has waited longer than Options::stall_timeout.
struct StallReport {
  int64_t num_accumulated;
  int64_t num_required;
  int64_t global_step;
  int64_t num_dropped;
  int64_t last_dropped_step;  // Local step of the last gradient that was dropped; 0 if none was.
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_STALL_REPORT_H_
