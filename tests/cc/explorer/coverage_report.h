// Says which calls and transitions of the core the schedules of a program have reached.
#ifndef CONDACC_TESTS_EXPLORER_COVERAGE_REPORT_H_
#define CONDACC_TESTS_EXPLORER_COVERAGE_REPORT_H_

#include <string>

namespace condacc::explorer {

// Prints what the schedules of this process have not reached, and if `prints_all`, how often they
// reached each. Returns whether they reached all that they should: the public calls of the program,
// the rows of Accumulator::NextAction() and the transitions of the gates, but for those that name
// the test that reaches them. Nothing that the list does not have may be reached.
bool ReportCoverage(const std::string& program, bool prints_all);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_COVERAGE_REPORT_H_
