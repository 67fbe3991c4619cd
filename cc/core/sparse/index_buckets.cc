#include "cc/core/sparse/index_buckets.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace condacc {
namespace {

constexpr size_t kOverfull = 8;  // A bucket of more than this many shares is divided.

}  // namespace

IndexBuckets::IndexBuckets(IndexRange range, std::vector<int64_t> sample, size_t wanted)
    : min_(range.min), max_(range.max) {
  const size_t num_slots = ChooseSlots(wanted);
  std::sort(sample.begin(), sample.end());
  if (IsAnyOverfull(sample, num_slots)) {
    BeginAtQuantiles(sample, wanted, num_slots);
    return;
  }
  first_indices_.resize(num_slots);
  for (size_t i = 0; i < num_slots; ++i) {
    first_indices_[i] = min_ + static_cast<int64_t>(uint64_t{i} << shift_);
  }
}

size_t IndexBuckets::ChooseSlots(size_t wanted) {
  const uint64_t width = static_cast<uint64_t>(max_ - min_);
  while ((width >> shift_) >= wanted) ++shift_;
  return static_cast<size_t>(width >> shift_) + 1;
}

bool IndexBuckets::IsAnyOverfull(const std::vector<int64_t>& sample, size_t num_slots) const {
  if (shift_ == 0) return false;  // The bucket of one index cannot be divided.
  const size_t max_size = kOverfull * (sample.size() / num_slots + 1);
  size_t bucket = num_slots;  // None so far.
  size_t size = 0;            // How much of the sample is in the bucket.
  size_t num_equal = 0;       // How much of it is equal to the current index.
  size_t max_equal = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    num_equal = i > 0 && sample[i] == sample[i - 1] ? num_equal + 1 : 1;
    if (BucketOf(sample[i]) != bucket) {
      bucket = BucketOf(sample[i]);
      size = max_equal = 0;
    }
    max_equal = std::max(max_equal, num_equal);
    // Without its most frequent index, which stays together in any case.
    if (++size - max_equal > max_size) return true;
  }
  return false;
}

void IndexBuckets::BeginAtQuantiles(const std::vector<int64_t>& sample, size_t wanted,
                                    size_t num_slots) {
  first_indices_.push_back(min_);
  for (size_t i = 1; i < wanted; ++i) {
    const int64_t quantile = sample[i * sample.size() / wanted];
    const int64_t last = first_indices_.back();
    if (quantile > last) {
      first_indices_.push_back(quantile);
    } else if (quantile == last && last < max_) {
      // The index is a quantile again, so it gets a bucket of its own, which ends here.
      first_indices_.push_back(last + 1);
    }
  }
  std::vector<uint32_t> slots(num_slots + 1, static_cast<uint32_t>(size() - 1));
  uint32_t bucket = 0;
  for (size_t slot = 0; slot < num_slots; ++slot) {
    const int64_t first = min_ + static_cast<int64_t>(uint64_t{slot} << shift_);
    while (bucket + 1 < size() && first_indices_[bucket + 1] <= first) ++bucket;
    slots[slot] = bucket;
  }
  slots_ = std::move(slots);
}

}  // namespace condacc
