// Counts the states of the core that schedules reach.
#ifndef CONDACC_TESTS_EXPLORER_COVERAGE_H_
#define CONDACC_TESTS_EXPLORER_COVERAGE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace condacc::explorer {

// Counts that something was reached: a call of a program, or a CONDACC_REACHED() of the core.
// `what` must be a literal.
void Reached(const char* what, int64_t a = 0, int64_t b = 0, int64_t c = 0);

// What was reached, in all runs of the process.
struct State {
  std::string what;
  std::array<int64_t, 3> numbers;
  int64_t count;
};
std::vector<State> ReachedStates();

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_COVERAGE_H_
