// Keeps memory for the next copy of the same shape.
#ifndef CONDACC_CORE_BASE_SPARE_BUFFERS_H_
#define CONDACC_CORE_BASE_SPARE_BUFFERS_H_

#include <cstddef>
#include <list>
#include <new>
#include <utility>

#include "cc/core/base/buffer.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/mutex.h"
#include "cc/core/base/shape.h"

namespace condacc {

// Keeps buffers that are no longer in use, because the first touch of fresh memory takes several
// times as long as copying to it. Keeps at most `max_bytes`, and only what the budget has room for.
// Thread-safe.
class SpareBuffers {
 public:
  SpareBuffers(size_t max_bytes, HoldBudget* budget) : max_bytes_(max_bytes), budget_(budget) {}
  ~SpareBuffers() { budget_->Add(-num_bytes_); }
  SpareBuffers(const SpareBuffers&) = delete;
  SpareBuffers& operator=(const SpareBuffers&) = delete;

  // Keeps the buffer, or frees it.
  void Give(Buffer buffer, const Shape& shape, size_t num_bytes) noexcept CONDACC_EXCLUDES(mu_) {
    std::list<Spare> spare;
    try {
      spare.push_back({std::move(buffer), shape, num_bytes});
    } catch (const std::bad_alloc&) {
      return;
    }
    MutexLock lock(&mu_);
    if (num_bytes_ + num_bytes > max_bytes_ || !budget_->TryAdd(num_bytes)) return;
    spares_.splice(spares_.end(), spare);
    num_bytes_ += num_bytes;
  }

  // Returns a buffer of exactly this shape, or an empty one.
  Buffer Take(const Shape& shape) CONDACC_EXCLUDES(mu_) {
    std::list<Spare> taken;
    MutexLock lock(&mu_);
    for (auto spare = spares_.begin(); spare != spares_.end(); ++spare) {
      if (spare->shape != shape) continue;
      num_bytes_ -= spare->num_bytes;
      budget_->Add(-spare->num_bytes);
      taken.splice(taken.end(), spares_, spare);
      return std::move(taken.front().buffer);
    }
    // No spare has this shape, so the shapes have changed. The spares are freed, because they are
    // unlikely to fit later.
    budget_->Add(-std::exchange(num_bytes_, 0));
    taken.swap(spares_);
    return Buffer();
  }

 private:
  struct Spare {
    Buffer buffer;
    Shape shape;
    size_t num_bytes;
  };

  const size_t max_bytes_;
  HoldBudget* const budget_;
  Mutex mu_;
  std::list<Spare> spares_ CONDACC_GUARDED_BY(mu_);
  size_t num_bytes_ CONDACC_GUARDED_BY(mu_) = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_SPARE_BUFFERS_H_
