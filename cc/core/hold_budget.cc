#include "cc/core/hold_budget.h"

#include <cstdlib>

namespace condacc {
namespace {

constexpr size_t kDefaultBytes = size_t{512} << 20;

size_t BytesFromEnvironment() {
  const char* text = std::getenv("TF_CONDACC_HOLD_BYTES");
  if (text == nullptr) return kDefaultBytes;
  char* end = nullptr;
  const unsigned long long bytes = std::strtoull(text, &end, 10);
  return end == text || *end != '\0' ? kDefaultBytes : static_cast<size_t>(bytes);
}

}  // namespace

HoldBudget& HoldBudget::Global() {
  // Never destroyed: accumulators may outlive static destructors.
  static HoldBudget* const budget = new HoldBudget(BytesFromEnvironment());
  return *budget;
}

HoldBudget& HoldBudget::Gpus() {
  static HoldBudget* const budget = new HoldBudget(BytesFromEnvironment());
  return *budget;
}

}  // namespace condacc
