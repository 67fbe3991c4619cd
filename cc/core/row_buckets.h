// Divides row numbers into ranges that hold about as many rows each.
#ifndef CONDACC_CORE_ROW_BUCKETS_H_
#define CONDACC_CORE_ROW_BUCKETS_H_

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
    RowRange range;       // of the row numbers in it; more than one
    size_t num_children;  // about so many, at least 2
  };

  RowBuckets() : RowBuckets({0, 0}, 1) {}
  // Makes at most `wanted` buckets, at least one. May throw std::bad_alloc.
  RowBuckets(RowRange range, size_t wanted);

  size_t size() const { return buckets_.size(); }

  // Returns the bucket of a row number that was counted in the range of the constructor, and in the
  // range of each split since then.
  size_t BucketOf(int64_t row) const {
    const Node* node = &nodes_.front();
    size_t slot = node->SlotOf(row);
    if (nodes_.size() == 1) return slot;
    while (slots_[slot] & kIsNode) {
      node = &nodes_[slots_[slot] & ~kIsNode];
      slot = node->SlotOf(row);
    }
    return slots_[slot];
  }

  // The lowest row number that belongs to a bucket; the next bucket's is the first that does not.
  int64_t first_row(size_t bucket) const { return buckets_[bucket].first_row; }

  // The row numbers in a bucket are at least base() and less than base() + 2**num_bits().
  int64_t base(size_t bucket) const { return buckets_[bucket].base; }
  int num_bits(size_t bucket) const { return buckets_[bucket].num_bits; }

  // Divides buckets, which are given in ascending order; `sizes` says how many row numbers each
  // bucket holds. Buckets are numbered anew, and empty ones become part of the one before them. May
  // throw std::bad_alloc, and then the buckets are of no use any more.
  void Divide(const std::vector<Split>& splits, const std::vector<size_t>& sizes);

 private:
  static constexpr uint32_t kIsNode = uint32_t{1} << 31;

  struct Bucket {
    int64_t first_row;
    int64_t base;
    int num_bits;
  };

  // A range of row numbers that is divided into slots of 2**shift row numbers each.
  struct Node {
    int64_t min;
    int shift;
    size_t first_slot;

    size_t SlotOf(int64_t row) const {
      return first_slot + static_cast<size_t>(static_cast<uint64_t>(row - min) >> shift);
    }
  };

  static Node NodeOf(RowRange range, size_t wanted, size_t first_slot);
  // Adds the buckets of a node and its slots. The first bucket begins at `first_row`.
  void AddBuckets(const Node& node, RowRange range, int64_t first_row,
                  std::vector<Bucket>* buckets);

  std::vector<Node> nodes_;  // the first one divides the whole range
  // Each slot of each node: a bucket, or with kIsNode the node that divides it again. While there
  // is one node only, a slot is the bucket of the same number.
  std::vector<uint32_t> slots_;
  std::vector<Bucket> buckets_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ROW_BUCKETS_H_
