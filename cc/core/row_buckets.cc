#include "cc/core/row_buckets.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace condacc {

RowBuckets::RowBuckets(RowRange range, size_t wanted) {
  nodes_.push_back(NodeOf(range, wanted, /*first_slot=*/0));
  AddBuckets(nodes_.front(), range, range.min, &buckets_);
}

RowBuckets::Node RowBuckets::NodeOf(RowRange range, size_t wanted, size_t first_slot) {
  const uint64_t width = static_cast<uint64_t>(range.max - range.min);
  int shift = 0;
  while ((width >> shift) >= wanted) ++shift;
  return {range.min, shift, first_slot};
}

void RowBuckets::AddBuckets(const Node& node, RowRange range, int64_t first_row,
                            std::vector<Bucket>* buckets) {
  const uint64_t last = static_cast<uint64_t>(range.max - range.min) >> node.shift;
  for (uint64_t i = 0; i <= last; ++i) {
    const int64_t base = node.min + static_cast<int64_t>(i << node.shift);
    slots_.push_back(static_cast<uint32_t>(buckets->size()));
    buckets->push_back({i == 0 ? first_row : base, base, node.shift});
  }
}

void RowBuckets::Divide(const std::vector<Split>& splits, const std::vector<size_t>& sizes) {
  const size_t num_old_slots = slots_.size();
  const std::vector<Bucket> old = std::exchange(buckets_, {});
  std::vector<uint32_t> successors(old.size());  // as slots_ says it
  auto split = splits.begin();
  for (size_t b = 0; b < old.size(); ++b) {
    if (split != splits.end() && split->bucket == b) {
      successors[b] = static_cast<uint32_t>(nodes_.size()) | kIsNode;
      nodes_.push_back(NodeOf(split->range, split->num_children, slots_.size()));
      AddBuckets(nodes_.back(), split->range, old[b].first_row, &buckets_);
      ++split;
    } else {
      if (sizes[b] > 0 || buckets_.empty()) buckets_.push_back(old[b]);
      successors[b] = static_cast<uint32_t>(buckets_.size() - 1);
    }
  }
  for (size_t i = 0; i < num_old_slots; ++i) {
    if (!(slots_[i] & kIsNode)) slots_[i] = successors[slots_[i]];
  }
}

}  // namespace condacc
