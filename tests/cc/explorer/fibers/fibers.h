// Threads of a model: fibers, of which one runs at a time.
#ifndef CONDACC_TESTS_EXPLORER_FIBERS_H_
#define CONDACC_TESTS_EXPLORER_FIBERS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/cc/explorer/fibers/strategy.h"

namespace condacc::explorer {

// At each *scheduling point*, a Strategy decides which fiber continues. Time is the number of
// points so far; if all fibers that are not blocked forever sleep, it jumps to the end of the first
// sleep. std::chrono::steady_clock shows this time, one nanosecond for each point (see clock.cc).
using Time = int64_t;
constexpr Time kNever = std::numeric_limits<Time>::max();

// The outcome of a run of fibers.
struct RunResult {
  std::string failure;               // The first failure, or "".
  int64_t num_points = 0;            // Number of scheduling points.
  uint64_t trace = 0;                // A hash of the points that each fiber reached, in order.
  std::vector<std::string> blocked;  // Names of the fibers that are blocked forever.
};

// What is printed during a run: only what Tell() tells and where fibers wait, or each point.
enum class Prints { kNothing, kEvents, kPoints };

// Begins a run, in which Draw() draws from `seed`.
void BeginRun(std::unique_ptr<Strategy> strategy, uint64_t seed, Prints prints);
// Runs fibers until each has ended or is blocked forever. May be called again after more were
// added. Returns false if some are blocked forever.
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

// Returns whether the run prints anything, so that it is worth to make a text for Tell().
bool IsPrinting();
// Prints what happens, for a reader.
void Tell(const std::string& what);

// While one exists, operator new refuses memory to the running fiber, so many percent of the times.
// A fiber may have one at a time.
class NewRefusal {
 public:
  explicit NewRefusal(int percent);
  ~NewRefusal();
  NewRefusal(const NewRefusal&) = delete;
  NewRefusal& operator=(const NewRefusal&) = delete;
};
// While one exists, operator new does not refuse memory to the running fiber after all. For what
// the core calls, but is not part of it.
class NewPermit {
 public:
  NewPermit();
  ~NewPermit();
  NewPermit(const NewPermit&) = delete;
  NewPermit& operator=(const NewPermit&) = delete;
};

bool HoldsLock();  // Returns whether the running fiber holds a lock.
Time Now();
// Returns the number of points that fibers other than the running one have reached.
int64_t NumPointsOfOthers();
// Returns a random number in [0, count), for a choice of the program.
int Draw(int count);
inline bool Chance(int percent) { return Draw(100) < percent; }

// Records a failure, unless one was recorded before.
void Fail(const std::string& what);
bool HasFailed();
// Prints the message and aborts: the run cannot continue.
[[noreturn]] void Abort(const char* what);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_FIBERS_H_
