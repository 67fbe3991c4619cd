#include "tests/cc/explorer/fibers/fibers.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "tests/cc/explorer/fibers/random.h"
#include "tests/cc/explorer/fibers/stack.h"

namespace condacc::explorer {
namespace {

constexpr int64_t kMaxPoints = 100000;
constexpr int kMaxEvents = 5000;  // More are not printed: nobody would read them.

struct Fiber {
  Stack stack;
  std::string name;
  std::function<void()> body;
  const void* blocked_on = nullptr;
  Time deadline = kNever;  // The time at which a blocked fiber is runnable again.
  bool has_ended = false;
  int num_locks = 0;
  int64_t num_points = 0;
  int refused_percent = 0;  // Of the allocations, unless there are permits.
  int num_permits = 0;
};

struct Run {
  std::unique_ptr<Strategy> strategy;
  Random random{0};
  Prints prints = Prints::kNothing;
  std::vector<Fiber*> fibers;
  std::vector<int> runnable;
  Time now = 0;
  int num_events = 0;  // That were printed.
  RunResult result;
};

Run run;
Stack main_stack;
// Fibers that have ended, whose stacks are reused, and those that are blocked forever. The lists
// are never destroyed, so that what their stacks refer to is not reported as leaked.
std::vector<Fiber*>& unused = *new std::vector<Fiber*>;
std::vector<Fiber*>& abandoned = *new std::vector<Fiber*>;
Fiber* current = nullptr;  // Null while no fiber runs.
int current_number = Strategy::kNone;

void Print(const char* what) {
  if (run.prints == Prints::kEvents && ++run.num_events > kMaxEvents) return;
  std::printf("%6lld  %-10s %s\n", static_cast<long long>(run.now),
              current == nullptr ? "" : current->name.c_str(), what);
}

// Returns whether a point tells a reader what happens. Others are too many.
bool IsEvent(const char* what) {
  for (const char* const detail : {"locks", "unlocks", "waits for a lock", "notifies", "calls",
                                   "returns", "allocates", "runs a chunk"}) {
    if (std::strcmp(what, detail) == 0) return false;
  }
  return true;
}

void Record(const char* what) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t& trace = run.result.trace;
  trace = (trace ^ static_cast<uint64_t>(current_number)) * kPrime;
  for (const char* c = what; *c != '\0'; ++c) trace = (trace ^ static_cast<uint64_t>(*c)) * kPrime;
  if (run.prints == Prints::kPoints || (run.prints == Prints::kEvents && IsEvent(what))) {
    Print(what);
  }
}

bool IsRunnable(const Fiber& fiber) {
  return !fiber.has_ended && (fiber.blocked_on == nullptr || fiber.deadline <= run.now);
}

// Lists the runnable fibers. If there are none, advances the time until one is runnable.
void ListRunnable() {
  run.runnable.clear();
  Time next = kNever;
  for (size_t i = 0; i < run.fibers.size(); ++i) {
    const Fiber& fiber = *run.fibers[i];
    if (IsRunnable(fiber)) run.runnable.push_back(static_cast<int>(i));
    if (!fiber.has_ended) next = std::min(next, fiber.deadline);
  }
  if (!run.runnable.empty() || next == kNever) return;
  run.now = next;
  ListRunnable();
}

void SwitchTo(int number) {
  Fiber* const from = current;
  current_number = number;
  current = number == Strategy::kNone ? nullptr : run.fibers[static_cast<size_t>(number)];
  if (current == from) return;
  if (current != nullptr) {
    current->blocked_on = nullptr;
    current->deadline = kNever;
  }
  Stack& old_stack = from == nullptr ? main_stack : from->stack;
  old_stack.SwitchTo(current == nullptr ? main_stack : current->stack,
                     from != nullptr && from->has_ended);
}

// Lets the strategy decide which fiber runs next. The main program runs if there is none.
void Choose(bool can_go_on) {
  if (++run.result.num_points > kMaxPoints) {
    Fail("the program does not end: it has come to " + std::to_string(kMaxPoints) + " points");
    SwitchTo(Strategy::kNone);
    return;
  }
  ++run.now;
  ListRunnable();
  if (run.runnable.empty()) {
    SwitchTo(Strategy::kNone);
  } else {
    SwitchTo(run.strategy->Choose(run.runnable, can_go_on ? current_number : Strategy::kNone));
  }
}

// The entry point of a fiber.
void RunBody() {
  current->body();
  current->body = nullptr;
  current->has_ended = true;
  Record("ends");
  Choose(/*can_go_on=*/false);
  Abort("a fiber that has ended goes on");
}

}  // namespace

void BeginRun(std::unique_ptr<Strategy> strategy, uint64_t seed, Prints prints) {
  run = Run();
  run.runnable.reserve(64);  // More would be allocated while a call of the core is refused memory.
  run.strategy = std::move(strategy);
  run.random = Random(seed);
  run.prints = prints;
}

bool RunFibers() {
  ListRunnable();
  if (!run.runnable.empty()) Choose(/*can_go_on=*/false);
  return std::all_of(run.fibers.begin(), run.fibers.end(),
                     [](const Fiber* fiber) { return fiber->has_ended; });
}

RunResult EndRun() {
  for (Fiber* fiber : run.fibers) {
    if (!fiber->has_ended) run.result.blocked.push_back(fiber->name);
    (fiber->has_ended ? unused : abandoned).push_back(fiber);
  }
  run.fibers.clear();
  return std::move(run.result);
}

void Spawn(std::string name, std::function<void()> body) {
  const NewPermit permit;
  if (unused.empty()) unused.push_back(new Fiber);
  Fiber* const fiber = unused.back();
  unused.pop_back();
  fiber->name = std::move(name);
  fiber->body = std::move(body);
  fiber->has_ended = false;
  fiber->num_locks = 0;
  fiber->num_points = 0;
  fiber->refused_percent = 0;
  fiber->num_permits = 0;
  fiber->blocked_on = nullptr;
  fiber->deadline = kNever;
  fiber->stack.Start(RunBody);
  run.strategy->Add(static_cast<int>(run.fibers.size()));
  run.fibers.push_back(fiber);
}

void Point(const char* what) {
  if (current == nullptr) return;
  ++current->num_points;
  Record(what);
  Choose(/*can_go_on=*/true);
}

void BlockOn(const void* on, const char* what, Time deadline) {
  if (current == nullptr) Abort("the main program would block for ever");
  ++current->num_points;
  Record(what);
  current->blocked_on = on;
  current->deadline = deadline;
  Choose(/*can_go_on=*/false);
}

void Sleep(Time duration) {
  const Time until = run.now + duration;
  if (duration > 0) BlockOn(&until, "sleeps", until);
}

void Wake(const void* on) {
  for (Fiber* fiber : run.fibers) {
    if (fiber->blocked_on != on) continue;
    fiber->blocked_on = nullptr;
    fiber->deadline = kNever;
  }
}

void Lock(const void** owner) {
  Point("locks");
  const void* const me = current == nullptr ? static_cast<void*>(&main_stack) : current;
  if (*owner == me) Abort("a thread takes a lock that it holds");
  while (*owner != nullptr) BlockOn(owner, "waits for a lock");
  *owner = me;
  if (current != nullptr) ++current->num_locks;
}

void Unlock(const void** owner) {
  *owner = nullptr;
  if (current != nullptr) --current->num_locks;
  Wake(owner);
}

bool HoldsLock() { return current != nullptr && current->num_locks > 0; }

Time Now() { return run.now; }

int64_t NumPointsOfOthers() {
  return run.result.num_points - (current == nullptr ? 0 : current->num_points);
}

int Draw(int count) { return static_cast<int>(run.random.Below(count)); }

NewRefusal::NewRefusal(int percent) {
  if (current != nullptr) current->refused_percent = percent;
}
NewRefusal::~NewRefusal() {
  if (current != nullptr) current->refused_percent = 0;
}
NewPermit::NewPermit() {
  if (current != nullptr) ++current->num_permits;
}
NewPermit::~NewPermit() {
  if (current != nullptr) --current->num_permits;
}

bool IsPrinting() { return run.prints != Prints::kNothing; }

void Tell(const std::string& what) {
  if (IsPrinting()) Print(what.c_str());
}

void Fail(const std::string& what) {
  const NewPermit permit;
  if (IsPrinting()) std::printf("FAILURE: %s\n", what.c_str());
  if (run.result.failure.empty()) run.result.failure = what;
}

bool HasFailed() { return !run.result.failure.empty(); }

void Abort(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace condacc::explorer

// Replaces that of the standard library.
__attribute__((noinline)) void* operator new(size_t num_bytes) {
  using condacc::explorer::current;
  if (current != nullptr && current->refused_percent > 0 && current->num_permits == 0 &&
      condacc::explorer::Chance(current->refused_percent)) {
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(num_bytes > 0 ? num_bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }
