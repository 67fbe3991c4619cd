#include "tests/cc/explorer/explorer.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/cc/explorer/fibers/strategy.h"
#include "tests/cc/explorer/programs/programs.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace condacc::explorer {
namespace {

// The message about the current schedule, in case the process is aborted.
char aborted_message[256];
char current_schedule[128];
bool explains_aborts = false;

void PrintAborted() {
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, aborted_message, std::strlen(aborted_message));
}

void OnSignal(int signal) {
  PrintAborted();
  if (explains_aborts) {
    char name[] = "explorer";
    char option[] = "--explain";
    char* const arguments[] = {name, option, current_schedule, nullptr};
    execv("/proc/self/exe", arguments);
  }
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  raise(signal);
}

// The handlers run on their own stack, because the stack of a fiber may be corrupt.
void InstallHandlers() {
  static bool is_installed = false;
  if (std::exchange(is_installed, true)) return;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(PrintAborted);
#endif
  static char stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_ONSTACK;
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kSignals[] = {SIGABRT};
#else
  constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#endif
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

}  // namespace

void ExplainAborts() { explains_aborts = true; }

RunResult RunSchedule(const ScheduleId& id, Prints prints) {
  InstallHandlers();
  std::snprintf(current_schedule, sizeof current_schedule, "%s", id.ToString().c_str());
  std::snprintf(aborted_message, sizeof aborted_message, "aborted in schedule %s\n",
                id.ToString().c_str());
  BeginRun(MakeStrategy(id), id.seed, prints);
  FindProgram(id.program)();
  RunResult result = EndRun();
  if (result.failure.empty() && !result.blocked.empty()) {
    result.failure = "waits for ever:";
    for (const std::string& name : result.blocked) result.failure += " [" + name + "]";
  }
  return result;
}

Exploration Explore(const std::string& program, uint64_t first_seed, int64_t num_schedules) {
  Exploration exploration;
  ScheduleId id;
  id.program = program;
  while (exploration.num_schedules < num_schedules && exploration.failure.empty()) {
    const bool is_random = exploration.num_schedules % 2 == 0;
    id.strategy = is_random ? StrategyKind::kRandom : StrategyKind::kPct;
    id.seed = first_seed + static_cast<uint64_t>(exploration.num_schedules / 2);
    const RunResult result = RunSchedule(id);
    ++exploration.num_schedules;
    exploration.num_points += result.num_points;
    exploration.failure = result.failure;
    if (!result.failure.empty()) exploration.failed = id.ToString();
    if (is_random) id.length = result.num_points;
  }
  return exploration;
}

}  // namespace condacc::explorer
