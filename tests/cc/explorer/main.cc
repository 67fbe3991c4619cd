// Explores schedules of a program, or runs one again.
//   explorer PROGRAM [COUNT [FIRST_SEED]]
//   explorer --replay SCHEDULE    prints what happens in the schedule
//   explorer --points SCHEDULE    prints each scheduling point
// PROGRAM is one of programs.cc. COUNT and FIRST_SEED are also taken from TF_CONDACC_TEST_ROUNDS
// and TF_CONDACC_TEST_SEED; see test_settings.h. SCHEDULE is what is printed if a schedule fails.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "tests/cc/base/test_settings.h"
#include "tests/cc/explorer/coverage_report.h"
#include "tests/cc/explorer/explorer.h"
#include "tests/cc/explorer/programs/programs.h"

namespace condacc::explorer {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr long long kNumSchedules = 1000;
#else
constexpr long long kNumSchedules = 10000;
#endif
// So many schedules must reach everything that the program should reach. With fewer, what is
// missing is printed.
constexpr long long kEnoughToCover = 60000;

int Replay(const std::string& schedule, Prints prints) {
  const std::optional<ScheduleId> id = ScheduleId::Parse(schedule);
  if (!id.has_value() || FindProgram(id->program) == nullptr) {
    std::fprintf(stderr, "expected a schedule such as gate:pct:seed=17,length=412, got %s\n",
                 schedule.c_str());
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // An abort then loses no line.
  const RunResult result = RunSchedule(*id, prints);
  std::printf("%s: %lld points, trace %016llx: %s\n", schedule.c_str(),
              static_cast<long long>(result.num_points),
              static_cast<unsigned long long>(result.trace),
              result.failure.empty() ? "no failure" : result.failure.c_str());
  return result.failure.empty() ? 0 : 1;
}

// Runs a schedule that has failed once more, so that a reader sees what happened.
void Explain(const std::string& schedule) {
  std::printf("what happened in %s (also with --replay; --points prints each point):\n",
              schedule.c_str());
  static_cast<void>(RunSchedule(*ScheduleId::Parse(schedule), Prints::kEvents));
}

int ExploreAndReport(const std::string& program, long long num_schedules, uint64_t first_seed) {
  ExplainAborts();
  const Exploration exploration = Explore(program, first_seed, num_schedules);
  if (!exploration.failed.empty()) {
    std::fprintf(stderr, "failed schedule %s: %s\n", exploration.failed.c_str(),
                 exploration.failure.c_str());
    Explain(exploration.failed);
    return 1;
  }
  std::printf("%s: %lld schedules from seed %llu, %lld points, no failure\n", program.c_str(),
              static_cast<long long>(exploration.num_schedules),
              static_cast<unsigned long long>(first_seed),
              static_cast<long long>(exploration.num_points));
  const bool covers_all = ReportCoverage(program, num_schedules >= kEnoughToCover);
  return covers_all || num_schedules < kEnoughToCover ? 0 : 1;
}

int Main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--replay") return Replay(argv[2], Prints::kEvents);
  if (argc == 3 && std::string(argv[1]) == "--explain") {  // After an abort; see ExplainAborts().
    Replay(argv[2], Prints::kEvents);
    return 1;
  }
  if (argc == 3 && std::string(argv[1]) == "--points") return Replay(argv[2], Prints::kPoints);
  if (argc < 2 || argc > 4 || FindProgram(argv[1]) == nullptr) {
    std::fprintf(
        stderr,
        "usage: %s PROGRAM [COUNT [FIRST_SEED]], or --replay SCHEDULE, or --points SCHEDULE\n",
        argv[0]);
    return 2;
  }
  const long long num_schedules = argc > 2 ? std::atoll(argv[2]) : NumRounds(kNumSchedules);
  const long long first_seed = argc > 3 ? std::atoll(argv[3]) : TestSeed();
  return ExploreAndReport(argv[1], num_schedules, static_cast<uint64_t>(first_seed));
}

}  // namespace
}  // namespace condacc::explorer

// Exits without running destructors: after a failure, fibers may still refer to anything.
int main(int argc, char** argv) {
  const int status = condacc::explorer::Main(argc, argv);
  if (status == 0) return 0;
  std::fflush(nullptr);
  std::_Exit(status);
}
