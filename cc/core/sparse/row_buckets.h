// Divides row numbers into ranges that hold about as many rows each.
#ifndef CONDACC_CORE_SPARSE_ROW_BUCKETS_H_
#define CONDACC_CORE_SPARSE_ROW_BUCKETS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace condacc {

// Row numbers from `min` to `max`, both included.
struct RowRange {
  int64_t min;
  int64_t max;
};

// Buckets are ascending ranges of row numbers. At first they are equally wide. If the row numbers
// lie unevenly (one far away from all others, or in clusters), a few buckets hold nearly all of
// them; such buckets are then divided again, each by the range of what it holds.
class RowBuckets {
 public:
  // A bucket that is to be divided.
  struct Split {
    size_t bucket;
    RowRange range;  // Of row numbers seen in the bucket, at least two. Others may lie outside.
    size_t num_children;  // Target number of new buckets, at least 2.
  };

  RowBuckets() : RowBuckets({0, 0}, 1) {}
  // Makes at most `wanted` buckets, at least one. May throw std::bad_alloc.
  RowBuckets(RowRange range, size_t wanted);

  size_t size() const { return first_rows_.size(); }

  // Returns the bucket of a row number in the range of the constructor.
  size_t BucketOf(int64_t row) const {
    const Node& root = nodes_.front();
    size_t slot = static_cast<size_t>(static_cast<uint64_t>(row - root.min) >> root.shift);
    if (nodes_.size() == 1) return slot;
    while (slots_[slot] & kIsNode) slot = nodes_[slots_[slot] & ~kIsNode].SlotOf(row);
    return slots_[slot];
  }

  // Calls visit(bucket_of) with a function that does what BucketOf() does. It is faster for many
  // rows, as it has what it needs at hand while no bucket has been divided.
  template <typename Visit>
  void WithBucketOf(Visit visit) const {
    if (nodes_.size() > 1) return visit([this](int64_t row) { return BucketOf(row); });
    const int64_t min = nodes_.front().min;
    const int shift = nodes_.front().shift;
    visit([min, shift](int64_t row) {
      return static_cast<size_t>(static_cast<uint64_t>(row - min) >> shift);
    });
  }

  // A bucket covers the row numbers from its first_row() up to that of the next bucket.
  int64_t first_row(size_t bucket) const { return first_rows_[bucket]; }

  // Divides buckets, which are given in ascending order, and renumbers all buckets. Those whose
  // entry in `sizes` is 0 are merged into the preceding one. May throw std::bad_alloc, and then the
  // object must not be used any more.
  void Divide(const std::vector<Split>& splits, const std::vector<size_t>& sizes);

 private:
  static constexpr uint32_t kIsNode = uint32_t{1} << 31;

  // A range of row numbers that is divided into slots of 2**shift row numbers each. Row numbers
  // below the range belong to the first slot, and those above it to the last.
  struct Node {
    int64_t min;
    int shift;
    size_t first_slot;
    size_t num_slots;

    size_t SlotOf(int64_t row) const {
      if (row <= min) return first_slot;
      const uint64_t slot = static_cast<uint64_t>(row - min) >> shift;
      return first_slot + std::min<uint64_t>(slot, num_slots - 1);
    }
  };

  // Adds a node, its slots, and a bucket for each slot. The first bucket begins at `first_row`.
  void AddNode(RowRange range, size_t wanted, int64_t first_row);

  std::vector<Node> nodes_;  // The first one divides the whole range.
  // For each slot of each node: a bucket, or with kIsNode the node that divides it again. While
  // there is one node only, a slot is the bucket of the same number.
  std::vector<uint32_t> slots_;
  std::vector<int64_t> first_rows_;  // of the buckets
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_ROW_BUCKETS_H_
