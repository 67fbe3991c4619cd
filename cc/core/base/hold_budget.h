// Limits the memory of the pending gradients of several accumulators.
#ifndef CONDACC_CORE_BASE_HOLD_BUDGET_H_
#define CONDACC_CORE_BASE_HOLD_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <limits>

namespace condacc {

// Counts the bytes of pending gradients (those that were accepted but not yet added). Holding
// several gradients and adding them in one pass is faster than adding each immediately, but needs
// more memory. Thread-safe.
class HoldBudget {
 public:
  explicit constexpr HoldBudget(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns the default budget, which is never exceeded.
  static HoldBudget& Unlimited() {
    static HoldBudget budget(std::numeric_limits<size_t>::max());
    return budget;
  }

  // Adds to the number of bytes held, modulo 2^64: a negated number subtracts.
  void Add(size_t bytes) { held_.fetch_add(bytes, std::memory_order_relaxed); }
  size_t num_held() const { return held_.load(std::memory_order_relaxed); }
  bool IsExceeded() const { return num_held() > max_bytes_; }

 private:
  const size_t max_bytes_;
  std::atomic<size_t> held_{0};
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_HOLD_BUDGET_H_
