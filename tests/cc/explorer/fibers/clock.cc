// The steady clock of the explorer, which shows the time of the fibers.
#include <chrono>

#include "tests/cc/explorer/fibers/fibers.h"

// The linker prefers this definition to the one in the standard library. With the real clock, a
// schedule that is run again might take another course.
namespace std::chrono {

steady_clock::time_point steady_clock::now() noexcept {
  return time_point(duration(condacc::explorer::Now()));
}

}  // namespace std::chrono
