// How much memory all accumulators of the process may hold back.
#ifndef CONDACC_CORE_BASE_HOLD_BUDGET_H_
#define CONDACC_CORE_BASE_HOLD_BUDGET_H_

#include <atomic>
#include <cstddef>

namespace condacc {

// Counts the bytes of gradients that were accepted and not yet added: holding several and adding
// them in one pass is faster, but is memory that adding at once would not need. Thread-safe.
class HoldBudget {
 public:
  explicit HoldBudget(size_t max_bytes) : max_bytes_(max_bytes) {}

  // The process's own: 512 MiB, or what the environment variable TF_CONDACC_HOLD_BYTES says.
  static HoldBudget& Global();
  // The same for what lies in the memory of GPUs, all of them together: 2 GiB, or what
  // TF_CONDACC_GPU_HOLD_BYTES says.
  static HoldBudget& Gpus();

  // Modulo 2^64: a negative number of bytes is given back.
  void Add(size_t bytes) { held_.fetch_add(bytes, std::memory_order_relaxed); }
  size_t num_held() const { return held_.load(std::memory_order_relaxed); }
  bool IsExceeded() const { return num_held() > max_bytes_; }
  // True if so many bytes more would stay within the budget.
  bool HasRoomFor(size_t bytes) const { return num_held() + bytes <= max_bytes_; }

 private:
  const size_t max_bytes_;
  std::atomic<size_t> held_{0};
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_HOLD_BUDGET_H_
