#include "cc/kernels/base/settings.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

namespace condacc {
namespace {

size_t BytesFromEnvironment(const char* variable, size_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const unsigned long long bytes = std::strtoull(text, &end, 10);
  return end == text || *end != '\0' ? otherwise : static_cast<size_t>(bytes);
}

}  // namespace

// Accumulators may outlive static destructors, and the budgets have none.
static_assert(std::is_trivially_destructible_v<HoldBudget>);

HoldBudget& HostHoldBudget() {
  static HoldBudget budget(BytesFromEnvironment("TF_CONDACC_HOLD_BYTES", size_t{1} << 30));
  return budget;
}

HoldBudget& GpuHoldBudget() {
  static HoldBudget budget(BytesFromEnvironment("TF_CONDACC_GPU_HOLD_BYTES", size_t{2} << 30));
  return budget;
}

std::chrono::milliseconds StallTimeout() {
  constexpr double kDefaultSeconds = 60;
  const char* text = std::getenv("TF_CONDACC_STALL_WARNING_SECS");
  char* end = nullptr;
  double seconds = text == nullptr ? kDefaultSeconds : std::strtod(text, &end);
  if (text != nullptr && (end == text || !(seconds < 1e9))) seconds = kDefaultSeconds;
  return std::chrono::milliseconds(seconds > 0 ? static_cast<int64_t>(seconds * 1e3) : 0);
}

}  // namespace condacc
