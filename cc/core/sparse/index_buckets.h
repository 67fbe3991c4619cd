// Divides indices into ranges that contain about the same number of them.
#ifndef CONDACC_CORE_SPARSE_INDEX_BUCKETS_H_
#define CONDACC_CORE_SPARSE_INDEX_BUCKETS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace condacc {

// The indices from `min` to `max`, both included.
struct IndexRange {
  int64_t min;
  int64_t max;
};

// Buckets are ascending ranges of indices. At first they are equally wide. If the indices are
// distributed unevenly (in clusters, or with an outlier), a few buckets contain nearly all of them.
// Such buckets are then divided again, each by the range of the indices that it contains.
class IndexBuckets {
 public:
  // A bucket to be divided.
  struct Split {
    size_t bucket;
    // Range of the indices seen in the bucket, at least two. Other indices of the bucket may be
    // outside.
    IndexRange range;
    size_t num_children;  // Target number of new buckets, at least 2.
  };

  IndexBuckets() : IndexBuckets({0, 0}, 1) {}
  // Makes at most `wanted` buckets, at least one. May throw std::bad_alloc.
  IndexBuckets(IndexRange range, size_t wanted);

  size_t size() const { return first_indices_.size(); }

  // Returns the bucket of an index within the range given to the constructor.
  size_t BucketOf(int64_t index) const {
    const Node& root = nodes_.front();
    size_t slot = static_cast<size_t>(static_cast<uint64_t>(index - root.min) >> root.shift);
    if (nodes_.size() == 1) return slot;
    while (slots_[slot] & kIsNode) slot = nodes_[slots_[slot] & ~kIsNode].SlotOf(index);
    return slots_[slot];
  }

  // Calls visit(bucket_of) with a function that does what BucketOf() does. For many indices this is
  // faster: as long as no bucket has been divided, the function has copies of the two numbers that
  // it needs.
  template <typename Visit>
  void WithBucketOf(Visit visit) const {
    if (nodes_.size() > 1) return visit([this](int64_t index) { return BucketOf(index); });
    const int64_t min = nodes_.front().min;
    const int shift = nodes_.front().shift;
    visit([min, shift](int64_t index) {
      return static_cast<size_t>(static_cast<uint64_t>(index - min) >> shift);
    });
  }

  // A bucket covers the indices from its first_index() up to that of the next bucket.
  int64_t first_index(size_t bucket) const { return first_indices_[bucket]; }

  // Divides the buckets of `splits`, which are in ascending order, and renumbers all buckets. Other
  // buckets whose entry in `sizes` is 0 are merged into the preceding one. May throw
  // std::bad_alloc, and then the object must not be used again.
  void Divide(const std::vector<Split>& splits, const std::vector<size_t>& sizes);

 private:
  static constexpr uint32_t kIsNode = uint32_t{1} << 31;

  // A range of indices that is divided into slots of 2**shift indices each. Indices below the range
  // belong to the first slot, and those above it to the last.
  struct Node {
    int64_t min;
    int shift;
    size_t first_slot;
    size_t num_slots;

    size_t SlotOf(int64_t index) const {
      if (index <= min) return first_slot;
      const uint64_t slot = static_cast<uint64_t>(index - min) >> shift;
      return first_slot + std::min<uint64_t>(slot, num_slots - 1);
    }
  };

  // Adds a node with at most `wanted` slots, and a bucket for each slot. The first bucket begins at
  // `first_index`.
  void AddNode(IndexRange range, size_t wanted, int64_t first_index);

  std::vector<Node> nodes_;  // The first one divides the whole range.
  // For each slot of each node: its bucket or, marked with kIsNode, the node that divides it again.
  // While there is only one node, each slot is the bucket of the same number.
  std::vector<uint32_t> slots_;
  std::vector<int64_t> first_indices_;  // The first index of each bucket.
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_INDEX_BUCKETS_H_
