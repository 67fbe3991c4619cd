// Counts the memory that gradients and sums take.
#ifndef CONDACC_MEMORY_HELD_BYTES_H_
#define CONDACC_MEMORY_HELD_BYTES_H_

#include <atomic>
#include <cstddef>

namespace condacc {

// Counts bytes that are in use, and the most that were. Thread-safe.
class HeldBytes {
 public:
  // Returns the count of this process: the tensors that this library refers to, once for each
  // reference, and the mappings that it has made, even if only TensorFlow refers to them now. Pages
  // in PagePool::Global() are not counted.
  static HeldBytes& Global() {
    static HeldBytes held;  // Used after static destructors, and has none.
    return held;
  }

  void Add(size_t num_bytes) noexcept {
    const size_t now = now_.fetch_add(num_bytes, std::memory_order_relaxed) + num_bytes;
    size_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void Remove(size_t num_bytes) noexcept { now_.fetch_sub(num_bytes, std::memory_order_relaxed); }

  size_t now() const { return now_.load(std::memory_order_relaxed); }
  // Returns the most bytes since the last call, or since the beginning.
  size_t TakePeak() {
    const size_t peak = peak_.exchange(0, std::memory_order_relaxed);
    Add(0);  // Those that are held now count for the next peak.
    return peak;
  }

 private:
  std::atomic<size_t> now_{0};
  std::atomic<size_t> peak_{0};
};

}  // namespace condacc

#endif  // CONDACC_MEMORY_HELD_BYTES_H_
