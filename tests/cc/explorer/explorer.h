// Runs schedules of programs.
#ifndef CONDACC_TESTS_EXPLORER_EXPLORER_H_
#define CONDACC_TESTS_EXPLORER_EXPLORER_H_

#include <cstdint>
#include <string>

#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/fibers/schedule_id.h"

namespace condacc::explorer {

// Runs a schedule of a known program. It is also
// a failure if a fiber is blocked forever. If the process is aborted meanwhile, the schedule is
// printed.
RunResult RunSchedule(const ScheduleId& id, Prints prints = Prints::kNothing);

// From now on, if the process is aborted, it begins again and replays the schedule, so that a
// reader sees what happened. For programs with the arguments of main.cc.
void ExplainAborts();

struct Exploration {
  int64_t num_schedules = 0;
  int64_t num_points = 0;
  std::string failed;  // The schedule that failed, or "".
  std::string failure;
};

// Runs schedules of a program until one fails, at most `num_schedules`. Each seed gives two: a
// random one, and one of PCT, which uses the length of the random one as its estimate.
Exploration Explore(const std::string& program, uint64_t first_seed, int64_t num_schedules);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_EXPLORER_H_
