#include "tests/cc/explorer/fibers/schedule_id.h"

#include <cstdio>

namespace condacc::explorer {

std::string ScheduleId::ToString() const {
  const std::string seed_text = "seed=" + std::to_string(seed);
  if (strategy == StrategyKind::kRandom) return program + ":random:" + seed_text;
  return program + ":pct:" + seed_text + ",length=" + std::to_string(length);
}

std::optional<ScheduleId> ScheduleId::Parse(const std::string& text) {
  ScheduleId id;
  id.program = text.substr(0, text.find(':'));
  unsigned long long seed = 0;
  long long length = 0;
  const char* const rest = text.c_str() + id.program.size();
  if (std::sscanf(rest, ":pct:seed=%llu,length=%lld", &seed, &length) == 2) {
    id.strategy = StrategyKind::kPct;
  } else if (std::sscanf(rest, ":random:seed=%llu", &seed) != 1) {
    return std::nullopt;
  }
  id.seed = seed;
  id.length = length;
  if (id.ToString() != text) return std::nullopt;  // There is other text around the numbers.
  return id;
}

}  // namespace condacc::explorer
