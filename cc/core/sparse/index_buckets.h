// Divides indices into ranges that contain about the same number of them.
#ifndef CONDACC_CORE_SPARSE_INDEX_BUCKETS_H_
#define CONDACC_CORE_SPARSE_INDEX_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace condacc {

// The indices from `min` to `max`, both included.
struct IndexRange {
  int64_t min;
  int64_t max;
};

// Buckets are ascending ranges of indices, which are chosen by a sample. They are equally wide,
// unless one of them would have far more than its share of the sample, not counting the index that
// is most frequent there: because the indices are in clusters or have an outlier. Then the buckets
// begin at quantiles of the sample, and an index that is several quantiles in a row has a bucket of
// its own.
class IndexBuckets {
 public:
  IndexBuckets() : IndexBuckets({0, 0}, {}, 1) {}
  // Makes at least one and at most `wanted` buckets. `wanted` is at most 2^31.
  // `sample` has some of the indices, in any order; it may be empty. May throw std::bad_alloc.
  IndexBuckets(IndexRange range, std::vector<int64_t> sample, size_t wanted);

  size_t size() const { return first_indices_.size(); }

  // Returns the bucket of an index within the range.
  size_t BucketOf(int64_t index) const {
    const size_t slot = static_cast<uint64_t>(index - min_) >> shift_;
    if (slots_.empty()) return slot;
    // The bucket is that of the first index of the slot, or one of the next `n`.
    size_t bucket = slots_[slot];
    for (size_t n = slots_[slot + 1] - bucket; n > 0;) {
      const size_t half = (n + 1) / 2;
      bucket += first_indices_[bucket + half] <= index ? half : 0;
      n -= half;
    }
    return bucket;
  }

  // Calls visit(bucket_of) with a function that does what BucketOf() does. For many indices this is
  // faster: as long as buckets are equally wide, the function has copies of the two numbers that it
  // needs.
  template <typename Visit>
  void WithBucketOf(Visit visit) const {
    if (!slots_.empty()) return visit([this](int64_t index) { return BucketOf(index); });
    visit([min = min_, shift = shift_](int64_t index) {
      return static_cast<size_t>(static_cast<uint64_t>(index - min) >> shift);
    });
  }

  // A bucket covers the indices from its first_index() up to that of the next bucket.
  int64_t first_index(size_t bucket) const { return first_indices_[bucket]; }
  int64_t last_index(size_t bucket) const {
    return bucket + 1 == size() ? max_ : first_indices_[bucket + 1] - 1;
  }

 private:
  // Divides the range into at most `wanted` slots of 2^shift_ indices, and returns their number.
  size_t ChooseSlots(size_t wanted);
  // Returns whether a slot has far more than its share of the sample, which ascends.
  bool IsAnyOverfull(const std::vector<int64_t>& sample, size_t num_slots) const;
  void BeginAtQuantiles(const std::vector<int64_t>& sample, size_t wanted, size_t num_slots);

  int64_t min_;
  int64_t max_;
  int shift_ = 0;
  // The bucket of the first index of each slot, and at the end the last bucket. Empty if each slot
  // is a bucket.
  std::vector<uint32_t> slots_;
  std::vector<int64_t> first_indices_;  // The first index of each bucket.
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_INDEX_BUCKETS_H_
