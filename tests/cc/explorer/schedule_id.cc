#include "tests/cc/explorer/schedule_id.h"

#include <regex>

namespace condacc::explorer {

std::string ScheduleId::ToString() const {
  const std::string seed_text = "seed=" + std::to_string(seed);
  if (strategy == StrategyKind::kRandom) return program + ":random:" + seed_text;
  return program + ":pct:" + seed_text + ",length=" + std::to_string(length);
}

std::optional<ScheduleId> ScheduleId::Parse(const std::string& text) {
  static const std::regex kPattern(
      R"((\w+):(?:random:seed=(\d{1,19})|pct:seed=(\d{1,19}),length=(\d{1,18})))");
  std::smatch match;
  if (!std::regex_match(text, match, kPattern)) return std::nullopt;
  ScheduleId id;
  id.program = match[1];
  if (match[2].matched) {
    id.seed = std::stoull(match[2]);
  } else {
    id.strategy = StrategyKind::kPct;
    id.seed = std::stoull(match[3]);
    id.length = std::stoll(match[4]);
  }
  return id;
}

}  // namespace condacc::explorer
