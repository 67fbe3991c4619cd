// Sparse gradients for tests, and what should come of them.
#ifndef CONDACC_TESTS_SPARSE_SPARSE_SUPPORT_H_
#define CONDACC_TESTS_SPARSE_SPARSE_SUPPORT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/base/shape.h"
#include "cc/core/sparse/sparse_accumulator.h"
#include "cc/core/sparse/sparse_merge.h"
#include "cc/core/sparse/sparse_workspace.h"
#include "tests/cc/dense/test_block.h"

namespace condacc {

// Rows of `width` floats each.
struct Rows {
  std::vector<int64_t> rows;
  std::vector<float> values;

  bool operator==(const Rows& other) const { return rows == other.rows && values == other.values; }
};

inline Rows RandomRows(std::mt19937* random, size_t size, int64_t range, size_t width) {
  Rows result;
  std::uniform_int_distribution<int64_t> row(0, range - 1);
  for (size_t i = 0; i < size; ++i) result.rows.push_back(row(*random));
  if ((*random)() % 2 == 0) std::sort(result.rows.begin(), result.rows.end());
  result.values.reserve(size * width);
  for (size_t i = 0; i < size * width; ++i) {  // from -1 to 1; a distribution takes far longer
    result.values.push_back(static_cast<float>((*random)() >> 8) * 0x1p-23f - 1.0f);
  }
  return result;
}

// Adds one row after another in order of arrival, and divides.
inline Rows Merged(const std::vector<Rows>& gradients, size_t width, SparseReduction reduction) {
  struct Sum {
    std::vector<float> values;
    size_t last_gradient = 0;
    float count = 0;
  };
  std::map<int64_t, Sum> sums;
  for (size_t g = 0; g < gradients.size(); ++g) {
    for (size_t i = 0; i < gradients[g].rows.size(); ++i) {
      const auto [found, is_new] = sums.try_emplace(gradients[g].rows[i]);
      Sum& sum = found->second;
      const auto row = gradients[g].values.begin() + i * width;
      if (is_new) {
        sum.values.assign(row, row + width);
      } else {
        for (size_t k = 0; k < width; ++k) sum.values[k] += row[k];
      }
      if (is_new || sum.last_gradient != g) ++sum.count;
      sum.last_gradient = g;
    }
  }
  Rows result;
  for (const auto& [row, sum] : sums) {
    const float divisor = reduction == SparseReduction::kMean  ? sum.count
                          : reduction == SparseReduction::kSum ? 1.0f
                                                               : gradients.size();
    result.rows.push_back(row);
    for (float value : sum.values) result.values.push_back(value / divisor);
  }
  return result;
}

inline RowSource SourceOf(const Rows& gradient) {
  RowSource source;
  source.list = {gradient.rows.data(), gradient.rows.size(), 0, 0};
  if (!gradient.rows.empty()) {
    source.list.min = *std::min_element(gradient.rows.begin(), gradient.rows.end());
    source.list.max = *std::max_element(gradient.rows.begin(), gradient.rows.end());
  }
  source.values = gradient.values.data();
  return source;
}

// Memory for a merge of the sources to work in.
inline std::vector<RowEntry> EntriesFor(const std::vector<RowSource>& sources) {
  size_t num_entries = 0;
  for (const RowSource& source : sources) num_entries += source.list.size;
  return std::vector<RowEntry>(num_entries);
}

class TestSparseWorkspace : public HostSparseWorkspace {
 public:
  explicit TestSparseWorkspace(ParallelFor parallel_for = SerialFor)
      : parallel_for_(std::move(parallel_for)) {}

  Status Allocate(ElementType type, const Shape& shape, Block* block) override {
    return memory_.Allocate(type, shape, block);
  }
  Status AllocateInner(ElementType type, const Shape& shape, Block* block) override {
    return memory_.Allocate(type, shape, block);
  }
  void NoteFreed(size_t num_bytes) override { freed_bytes_ += num_bytes; }
  const ParallelFor& parallel_for() const override { return parallel_for_; }
  TestWorkspace& memory() { return memory_; }
  // Bytes of the gradients that folds have freed.
  size_t freed_bytes() const { return freed_bytes_; }

 private:
  TestWorkspace memory_;
  const ParallelFor parallel_for_;
  size_t freed_bytes_ = 0;
};

inline Block BlockOf(const void* data, size_t num_bytes) {
  Block block = TestBlock::Owning(num_bytes);
  if (num_bytes > 0) std::memcpy(block.data(), data, num_bytes);
  return block;
}

// `owned`: in memory of its own, else in that of `rows`.
inline SparseGradient GradientOf(const Rows& rows, size_t width, bool owned) {
  SparseGradient gradient;
  const int64_t size = static_cast<int64_t>(rows.rows.size());
  gradient.shapes.indices = Shape::Of({size});
  gradient.shapes.values = Shape::Of({size, static_cast<int64_t>(width)});
  gradient.owns_indices = gradient.owns_values = owned;
  if (owned) {
    gradient.indices = BlockOf(rows.rows.data(), rows.rows.size() * sizeof(int64_t));
    gradient.values = BlockOf(rows.values.data(), rows.values.size() * sizeof(float));
  } else {
    static int64_t nothing = 0;  // blocks of no elements are blocks all the same
    gradient.indices =
        TestBlock::Borrowing(size == 0 ? &nothing : const_cast<int64_t*>(rows.rows.data()));
    gradient.values =
        TestBlock::Borrowing(rows.values.empty() ? static_cast<void*>(&nothing)
                                                 : const_cast<float*>(rows.values.data()));
  }
  return gradient;
}

// A take of a sparse accumulator that keeps what it got.
template <class TakenFrom>
class SparseTakeOf {
 public:
  explicit SparseTakeOf(int64_t num_required)
      : take_(std::make_shared<typename TakenFrom::Take>(
            num_required, [this](const Status& status, typename TakenFrom::Value* value) {
              status_ = status;
              if (value != nullptr) value_ = std::move(*value);
              ++num_completions_;
            })) {}

  const typename TakenFrom::TakePtr& ptr() const { return take_; }
  int num_completions() const { return num_completions_; }
  const Status& status() const { return status_; }
  const typename TakenFrom::Value& value() const { return value_; }

  Rows rows() const {
    Rows result;
    const int64_t* const rows = static_cast<const int64_t*>(value_.indices.data());
    const float* const values = static_cast<const float*>(value_.values.data());
    result.rows.assign(rows, rows + value_.shape.dim(0));
    result.values.assign(values, values + value_.shape.num_elements());
    return result;
  }

 private:
  std::atomic<int> num_completions_{0};
  Status status_;
  typename TakenFrom::Value value_;
  typename TakenFrom::TakePtr take_;
};

using SparseTake = SparseTakeOf<SparseAccumulator>;

}  // namespace condacc

#endif  // CONDACC_TESTS_SPARSE_SPARSE_SUPPORT_H_
