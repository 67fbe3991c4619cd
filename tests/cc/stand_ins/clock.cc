// The steady clock of C++ tests, which stands still until a test moves it.
#include <chrono>

#include "tests/cc/stand_ins/timer_queue.h"

// This definition replaces the one of the standard library, because it is linked into the program
// (alwayslink in BUILD).
namespace std::chrono {

steady_clock::time_point steady_clock::now() noexcept { return condacc::TimerQueue::time(); }

}  // namespace std::chrono
