// Gradients and takes for tests of dense accumulators.
#ifndef CONDACC_TESTS_DENSE_DENSE_SUPPORT_H_
#define CONDACC_TESTS_DENSE_DENSE_SUPPORT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/float16.h"
#include "cc/core/base/shape.h"
#include "cc/core/dense/dense_sum.h"
#include "tests/cc/accumulator/recorded_take.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {

// The number of elements from which on the accumulator adds gradients early.
constexpr size_t kBigSize = 1 << 16;
// The number of gradients that are pending, beside the first one, when a fold is due.
constexpr int kFoldAt = 7;

template <typename T>
Accumulator::Options OptionsOf(bool mean, HoldBudget* budget = &HoldBudget::Unlimited()) {
  Accumulator::Options options;
  options.new_sum = NewDenseSum;
  options.sum.type = kTypeOf<T>;
  options.sum.reduction = mean ? Reduction::kMean : Reduction::kSum;
  options.sum.budget = budget;
  options.sum.small_bytes = 0;  // Tests hold gradients of a few elements.
  return options;
}

template <typename T>
Gradient Owned(const std::vector<T>& values) {
  Gradient gradient;
  gradient.values = TestBuffer::Owning(values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(gradient.values.data(), values.data(), values.size() * sizeof(T));
  }
  gradient.shape = Shape::Of({static_cast<int64_t>(values.size())});
  gradient.owned = true;
  return gradient;
}

// `values` must outlive its use by the accumulator.
template <typename T>
Gradient Borrowed(std::vector<T>* values) {
  Gradient gradient;
  gradient.values = TestBuffer::Borrowing(values->data());
  gradient.shape = Shape::Of({static_cast<int64_t>(values->size())});
  return gradient;
}

// A take of a dense accumulator.
class DenseTake : public RecordedTake {
 public:
  using RecordedTake::RecordedTake;

  // The result of the take, if it was served.
  const void* data() const { return value().values.data(); }
  const Shape& shape() const { return value().shape; }
  template <typename T>
  std::vector<T> values() const {
    std::vector<T> values(static_cast<size_t>(shape().num_elements()));
    if (!values.empty()) std::memcpy(values.data(), data(), values.size() * sizeof(T));
    return values;
  }
};

}  // namespace condacc

#endif  // CONDACC_TESTS_DENSE_DENSE_SUPPORT_H_
