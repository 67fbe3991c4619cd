#include "cc/core/sparse/index_buckets.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace condacc {

IndexBuckets::IndexBuckets(IndexRange range, size_t wanted) { AddNode(range, wanted, range.min); }

void IndexBuckets::AddNode(IndexRange range, size_t wanted, int64_t first_index) {
  const uint64_t width = static_cast<uint64_t>(range.max - range.min);
  int shift = 0;
  while ((width >> shift) >= wanted) ++shift;
  const size_t num_slots = static_cast<size_t>(width >> shift) + 1;
  nodes_.push_back({range.min, shift, slots_.size(), num_slots});
  for (uint64_t i = 0; i < num_slots; ++i) {
    slots_.push_back(static_cast<uint32_t>(first_indices_.size()));
    first_indices_.push_back(i == 0 ? first_index : range.min + static_cast<int64_t>(i << shift));
  }
}

void IndexBuckets::Divide(const std::vector<Split>& splits, const std::vector<size_t>& sizes) {
  const size_t num_old_slots = slots_.size();
  const std::vector<int64_t> old = std::exchange(first_indices_, {});
  // The buckets or nodes that replace the old buckets, in the form that slots_ has.
  std::vector<uint32_t> successors(old.size());
  auto split = splits.begin();
  for (size_t b = 0; b < old.size(); ++b) {
    if (split != splits.end() && split->bucket == b) {
      successors[b] = static_cast<uint32_t>(nodes_.size()) | kIsNode;
      AddNode(split->range, split->num_children, old[b]);
      ++split;
    } else {
      if (sizes[b] > 0 || first_indices_.empty()) first_indices_.push_back(old[b]);
      successors[b] = static_cast<uint32_t>(first_indices_.size() - 1);
    }
  }
  for (size_t i = 0; i < num_old_slots; ++i) {
    if (!(slots_[i] & kIsNode)) slots_[i] = successors[slots_[i]];
  }
}

}  // namespace condacc
