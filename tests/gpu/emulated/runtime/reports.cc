#include "tests/gpu/emulated/runtime/reports.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/gpu/emulated/runtime/device_memory.h"

namespace condacc {
namespace emulated {
namespace {

class Reports {
 public:
  static Reports& Get() {
    static auto* const reports = new Reports;
    return *reports;
  }

  void Add(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mu_);
    ++faults_[what];
  }

  // Returns whether there was no fault.
  bool Print() {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [what, count] : faults_) {
      std::fprintf(stderr, "emulated GPU: FAULT, %ld times: %s\n", count, what.c_str());
    }
    std::fprintf(stderr, "emulated GPU: %zu allocations left, %zu kinds of faults\n",
                 DeviceMemory::Get().num_allocations(), faults_.size());
    return faults_.empty();
  }

 private:
  std::mutex mu_;
  std::map<std::string, long> faults_;
};

// Ends a program whose own checks have passed, as one that has failed.
struct PrintAtExit {
  ~PrintAtExit() {
    if (std::getenv("EMULATED_QUIET") != nullptr) return;
    const bool is_good = Reports::Get().Print();
    std::fflush(nullptr);
    if (!is_good) _exit(kReportedStatus);
  }
} print_at_exit;

}  // namespace

void Report(const std::string& what) { Reports::Get().Add(what); }

}  // namespace emulated
}  // namespace condacc
