// Counts the states of the core that schedules reach.
#ifndef CONDACC_TESTS_EXPLORER_COVERAGE_H_
#define CONDACC_TESTS_EXPLORER_COVERAGE_H_

#include <cstdint>

namespace condacc::explorer {

// Counts that something was reached: a call of a program, or a CONDACC_REACHED() of the core.
// `what` must be a literal.
void Reached(const char* what, int64_t a = 0, int64_t b = 0, int64_t c = 0);

// Returns how often that was reached, in all runs of the process.
int64_t NumReached(const char* what, int64_t a = 0, int64_t b = 0, int64_t c = 0);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_COVERAGE_H_
