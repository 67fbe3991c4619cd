// Memory kept for the next copy of the same shape.
#ifndef CONDACC_CORE_SPARSE_SPARE_BLOCKS_H_
#define CONDACC_CORE_SPARSE_SPARE_BLOCKS_H_

#include <cstddef>
#include <list>
#include <new>
#include <utility>

#include "cc/core/base/block.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/mutex.h"
#include "cc/core/base/shape.h"

namespace condacc {

// The first touch of fresh memory costs several times what copying into it does, so blocks that are
// done with are kept, up to `max_bytes`, as long as all accumulators together hold not too much.
// Thread-safe.
class SpareBlocks {
 public:
  SpareBlocks(size_t max_bytes, HoldBudget* budget) : max_bytes_(max_bytes), budget_(budget) {}
  ~SpareBlocks() { budget_->Add(-num_bytes_); }
  SpareBlocks(const SpareBlocks&) = delete;
  SpareBlocks& operator=(const SpareBlocks&) = delete;

  // Keeps the block, or lets it go.
  void Give(Block block, const Shape& shape, size_t num_bytes) noexcept CONDACC_EXCLUDES(mu_) {
    std::list<Spare> spare;
    try {
      spare.push_back({std::move(block), shape, num_bytes});
    } catch (const std::bad_alloc&) {
      return;
    }
    MutexLock lock(&mu_);
    if (num_bytes_ + num_bytes > max_bytes_ || !budget_->HasRoomFor(num_bytes)) return;
    spares_.splice(spares_.end(), spare);
    num_bytes_ += num_bytes;
    budget_->Add(num_bytes);
  }

  // A block of just this shape, or an empty one.
  Block Take(const Shape& shape) CONDACC_EXCLUDES(mu_) {
    std::list<Spare> taken;
    MutexLock lock(&mu_);
    for (auto spare = spares_.begin(); spare != spares_.end(); ++spare) {
      if (spare->shape != shape) continue;
      num_bytes_ -= spare->num_bytes;
      budget_->Add(-spare->num_bytes);
      taken.splice(taken.end(), spares_, spare);
      return std::move(taken.front().block);
    }
    // Shapes have changed: what does not fit now will hardly fit later.
    budget_->Add(-std::exchange(num_bytes_, 0));
    taken.swap(spares_);
    return Block();
  }

 private:
  struct Spare {
    Block block;
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

#endif  // CONDACC_CORE_SPARSE_SPARE_BLOCKS_H_
