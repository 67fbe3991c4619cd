// Threads of a model: fibers, of which one runs at a time.
#ifndef CONDACC_TESTS_EXPLORER_FIBERS_H_
#define CONDACC_TESTS_EXPLORER_FIBERS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/cc/explorer/strategy.h"

namespace condacc::explorer {

// At each *scheduling point*, a Strategy decides which fiber goes on. Time is the number of points
// so far; if all fibers that are not blocked for ever sleep, it jumps to the end of the first
// sleep. std::chrono::steady_clock shows this time, one nanosecond for each point (see clock.cc).
using Time = int64_t;
constexpr Time kNever = std::numeric_limits<Time>::max();

// The outcome of a run of fibers.
struct RunResult {
  std::string failure;               // What was wrong first, or "".
  int64_t num_points = 0;            // Number of scheduling points.
  uint64_t trace = 0;                // A hash of which fiber came to which point, in order.
  std::vector<std::string> blocked;  // Names of the fibers that are blocked for ever.
};

// Begins a run, in which Draw() draws from `seed`. If `prints` is true, each point is printed.
void BeginRun(std::unique_ptr<Strategy> strategy, uint64_t seed, bool prints);
// Runs fibers until each has ended or is blocked for ever. May be called again with further ones.
// Returns false if some are blocked for ever.
bool RunFibers();
// Ends the run. Fibers that are blocked are given up: their destructors never run.
RunResult EndRun();

// Adds a fiber. Fibers may add others.
void Spawn(std::string name, std::function<void()> body);
// A scheduling point. Does nothing outside fibers.
void Point(const char* what);
// Blocks the running fiber until Wake(on), or until the time `deadline`.
void BlockOn(const void* on, const char* what, Time deadline = kNever);
// Blocks the running fiber for this long.
void Sleep(Time duration);
void Wake(const void* on);
// The running fiber takes and releases a lock, whose owner is `*owner`.
void Lock(const void** owner);
void Unlock(const void** owner);

bool HoldsLock();  // The running fiber holds a lock.
Time Now();
// Number of points that other fibers than the running one have come to.
int64_t NumPointsOfOthers();
// Returns a random number in [0, count), for what the program does.
int Draw(int count);
inline bool Chance(int percent) { return Draw(100) < percent; }

// Records that something is wrong, unless something was before.
void Fail(const std::string& what);
bool HasFailed();
// Prints the message and aborts: the run cannot go on.
[[noreturn]] void Abort(const char* what);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_FIBERS_H_
