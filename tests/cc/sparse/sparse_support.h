// Sparse gradients for tests, and the merged rows that they should give.
#ifndef CONDACC_TESTS_SPARSE_SPARSE_SUPPORT_H_
#define CONDACC_TESTS_SPARSE_SPARSE_SUPPORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/base/shape.h"
#include "cc/core/sparse/host_merge_pass.h"
#include "cc/core/sparse/sparse_sum.h"
#include "tests/cc/accumulator/recorded_take.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {

// The indices and values of a sparse gradient. The slices have the same number of floats each.
struct Slices {
  std::vector<int64_t> indices;
  std::vector<float> values;
  double weight = 1;  // The values have been multiplied by it.

  bool operator==(const Slices& other) const {
    return indices == other.indices && values == other.values;
  }
};

inline Slices RandomSlices(std::mt19937* random, size_t size, int64_t range, size_t width) {
  Slices result;
  std::uniform_int_distribution<int64_t> index(0, range - 1);
  for (size_t i = 0; i < size; ++i) result.indices.push_back(index(*random));
  if ((*random)() % 2 == 0) std::sort(result.indices.begin(), result.indices.end());
  result.values.reserve(size * width);
  for (size_t i = 0; i < size * width; ++i) {  // From -1 to 1. A distribution takes far longer.
    result.values.push_back(static_cast<float>((*random)() >> 8) * 0x1p-23f - 1.0f);
  }
  return result;
}

// Returns a gradient whose indices ascend without repeats.
inline Slices AscendingSlices(std::mt19937* random, size_t size, int64_t range, size_t width) {
  Slices result = RandomSlices(random, size, range, width);
  std::sort(result.indices.begin(), result.indices.end());
  const auto end = std::unique(result.indices.begin(), result.indices.end());
  result.indices.erase(end, result.indices.end());
  result.values.resize(result.indices.size() * width);
  return result;
}

// Adds one slice after another in order of arrival, and divides.
inline Slices Merged(const std::vector<Slices>& gradients, size_t width, Reduction reduction) {
  struct Sum {
    std::vector<float> values;
    size_t last_gradient = 0;
    double weight = 0;
  };
  std::map<int64_t, Sum> sums;
  double total_weight = 0;
  for (size_t g = 0; g < gradients.size(); ++g) {
    total_weight += gradients[g].weight;
    for (size_t i = 0; i < gradients[g].indices.size(); ++i) {
      const auto [found, is_new] = sums.try_emplace(gradients[g].indices[i]);
      Sum& sum = found->second;
      const auto row = gradients[g].values.begin() + i * width;
      if (is_new) {
        sum.values.assign(row, row + width);
      } else {
        for (size_t k = 0; k < width; ++k) sum.values[k] += row[k];
      }
      if (is_new || sum.last_gradient != g) sum.weight += gradients[g].weight;
      sum.last_gradient = g;
    }
  }
  Slices result;
  for (const auto& [row, sum] : sums) {
    double divisor = reduction == Reduction::kMean ? sum.weight : total_weight;
    if (reduction == Reduction::kSum || divisor == 0) divisor = 1;
    result.indices.push_back(row);
    for (float value : sum.values) result.values.push_back(value / static_cast<float>(divisor));
  }
  return result;
}

inline HostSource SourceOf(const Slices& gradient) {
  HostSource source;
  source.indices = {gradient.indices.data(), gradient.indices.size()};
  if (!gradient.indices.empty()) {
    source.indices.min = *std::min_element(gradient.indices.begin(), gradient.indices.end());
    source.indices.max = *std::max_element(gradient.indices.begin(), gradient.indices.end());
  }
  source.indices.is_ascending =
      std::adjacent_find(gradient.indices.begin(), gradient.indices.end(),
                         std::greater_equal<>()) == gradient.indices.end();
  source.values = gradient.values.data();
  return source;
}

class TestSparseWorkspace : public TestWorkspace {
 public:
  using TestWorkspace::TestWorkspace;

  void NoteFreed(size_t num_bytes) override { freed_bytes_ += num_bytes; }
  // Bytes of the gradients that folds have freed.
  size_t freed_bytes() const { return freed_bytes_; }

 private:
  size_t freed_bytes_ = 0;
};

inline Buffer BufferOf(const void* data, size_t num_bytes) {
  Buffer buffer = TestBuffer::Owning(num_bytes);
  if (num_bytes > 0) std::memcpy(buffer.data(), data, num_bytes);
  return buffer;
}

// Returns a gradient in its own memory if `owned`, and otherwise in the memory of `slices`.
inline Gradient GradientOf(const Slices& slices, size_t width, bool owned) {
  Gradient gradient;
  const int64_t size = static_cast<int64_t>(slices.indices.size());
  gradient.indices_shape = Shape::Of({size});
  gradient.shape = Shape::Of({size, static_cast<int64_t>(width)});
  gradient.owns_indices = gradient.owned = owned;
  gradient.weight = slices.weight;
  if (owned) {
    gradient.indices = BufferOf(slices.indices.data(), slices.indices.size() * sizeof(int64_t));
    gradient.values = BufferOf(slices.values.data(), slices.values.size() * sizeof(float));
  } else {
    static int64_t nothing = 0;  // Buffers of no elements are not empty either.
    gradient.indices =
        TestBuffer::Borrowing(size == 0 ? &nothing : const_cast<int64_t*>(slices.indices.data()));
    gradient.values =
        TestBuffer::Borrowing(slices.values.empty() ? static_cast<void*>(&nothing)
                                                    : const_cast<float*>(slices.values.data()));
  }
  return gradient;
}

class SparseTake : public RecordedTake {
 public:
  using RecordedTake::RecordedTake;

  Slices slices() const {
    const Value& value = this->value();
    Slices result;
    const int64_t* const indices = static_cast<const int64_t*>(value.indices.data());
    const float* const values = static_cast<const float*>(value.values.data());
    result.indices.assign(indices, indices + value.shape.dim(0));
    result.values.assign(values, values + value.shape.num_elements());
    return result;
  }
};

}  // namespace condacc

#endif  // CONDACC_TESTS_SPARSE_SPARSE_SUPPORT_H_
