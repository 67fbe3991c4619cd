// Memory for the rows of a merge, which is freed from its beginning on.
#ifndef CONDACC_CORE_SPARSE_BUCKET_MEMORY_H_
#define CONDACC_CORE_SPARSE_BUCKET_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/sparse/index_buckets.h"

namespace condacc {

// Memory for the items of all buckets, in ascending order: the entries of a merge, or the sums of
// its new rows. A take frees what it has read, so that these and the result never exist in full at
// the same time.
class BucketMemory {
 public:
  BucketMemory() = default;
  // Allocates memory for items of `item_bytes` bytes, of which starts[b] belong to buckets below b.
  // May throw std::bad_alloc.
  BucketMemory(const IndexBuckets& buckets, std::vector<size_t> starts, size_t item_bytes,
               HostWorkspace& workspace)
      : starts_(std::move(starts)), item_bytes_(item_bytes) {
    last_indices_.reserve(buckets.size());
    for (size_t b = 0; b < buckets.size(); ++b) last_indices_.push_back(buckets.last_index(b));
    Allocate(workspace);
  }
  // Allocates memory for an item for each of these indices, which ascend. There is a bucket for
  // each `bucket_size` of them.
  BucketMemory(const int64_t* indices, size_t num_items, size_t bucket_size, size_t item_bytes,
               HostWorkspace& workspace)
      : starts_({0}), item_bytes_(item_bytes) {
    for (size_t start = 0; start < num_items;) {
      start = std::min(num_items, start + bucket_size);
      starts_.push_back(start);
      last_indices_.push_back(indices[start - 1]);
    }
    Allocate(workspace);
  }

  // Returns the memory of the first item of a bucket.
  char* Of(size_t bucket) const {
    return static_cast<char*>(memory_.data()) + starts_[bucket] * item_bytes_;
  }

  // Frees the memory of the buckets that only have indices below `index`, as far as it can be freed
  // alone. Allocates nothing.
  void FreeBelow(int64_t index) const {
    const auto next = std::lower_bound(last_indices_.begin(), last_indices_.end(), index);
    memory_.FreeFirst(starts_[static_cast<size_t>(next - last_indices_.begin())] * item_bytes_);
  }

 private:
  void Allocate(HostWorkspace& workspace) {
    memory_ = workspace.AllocateInner(starts_.back() * item_bytes_);
    if (!memory_) throw std::bad_alloc();
  }

  std::vector<size_t> starts_;
  std::vector<int64_t> last_indices_;  // The last index of each bucket.
  size_t item_bytes_ = 0;
  Buffer memory_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_BUCKET_MEMORY_H_
