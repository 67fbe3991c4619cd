// Names schedules, so that each can be run again.
#ifndef CONDACC_TESTS_EXPLORER_SCHEDULE_ID_H_
#define CONDACC_TESTS_EXPLORER_SCHEDULE_ID_H_

#include <cstdint>
#include <optional>
#include <string>

namespace condacc::explorer {

enum class StrategyKind { kRandom, kPct };

// Everything that a schedule depends on: two runs of the same schedule do the same, point by point.
// Its text is, for example, "dense:random:seed=17" or "gate:pct:seed=17,length=412".
struct ScheduleId {
  std::string program;
  StrategyKind strategy = StrategyKind::kRandom;
  uint64_t seed = 0;
  int64_t length = 0;  // The estimated number of scheduling points. Only for kPct.

  std::string ToString() const;
  // Returns nothing if the text does not name a schedule.
  static std::optional<ScheduleId> Parse(const std::string& text);
};

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_SCHEDULE_ID_H_
