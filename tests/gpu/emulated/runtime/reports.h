// Reports of faults in kernels, which are printed when the process ends.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_REPORTS_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_REPORTS_H_

#include <string>

namespace condacc {
namespace emulated {

// A process that has reports exits with this status.
inline constexpr int kReportedStatus = 3;

// Notes a fault after which the work can go on.
void Report(const std::string& what);

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_REPORTS_H_
