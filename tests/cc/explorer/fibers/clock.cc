// The steady clock of the explorer, which shows the time of the fibers.
#include <chrono>

#include "tests/cc/explorer/fibers/fibers.h"

// This definition replaces the one of the standard library, because it is linked into the program
// (alwayslink in BUILD). With the real clock, a schedule that is run again might take another
// course.
namespace std::chrono {

steady_clock::time_point steady_clock::now() noexcept {
  return time_point(duration(condacc::explorer::Now()));
}

}  // namespace std::chrono
