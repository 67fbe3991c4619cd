#include "cc/core/base/hold_budget.h"

#include <cstdlib>

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

HoldBudget& HoldBudget::Host() {
  // The budget is never destroyed, because accumulators may outlive static destructors.
  static HoldBudget* const budget =
      new HoldBudget(BytesFromEnvironment("TF_CONDACC_HOLD_BYTES", size_t{512} << 20));
  return *budget;
}

HoldBudget& HoldBudget::Gpus() {
  static HoldBudget* const budget =
      new HoldBudget(BytesFromEnvironment("TF_CONDACC_GPU_HOLD_BYTES", size_t{2} << 30));
  return *budget;
}

}  // namespace condacc
