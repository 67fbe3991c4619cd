#include "tests/cc/explorer/gradients.h"

#include <algorithm>
#include <cstring>

#include "cc/core/base/float16.h"
#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc::explorer {
namespace {

// The largest number of gradients for which every sum is exact in float16.
constexpr int kMaxFloat16Gradients = 11;

// Moves memory of the caller to a buffer that the accumulator may keep, or lends it.
Buffer BufferOf(void* data, size_t num_bytes, bool is_borrowed) {
  if (is_borrowed) return BorrowedBuffer(data, num_bytes);
  Buffer buffer = NewBuffer(num_bytes);
  std::memcpy(buffer.data(), data, num_bytes);
  return buffer;
}

}  // namespace

// A gradient of 2^16 elements or more is large for DenseSum.
DenseGradients::DenseGradients()
    : type_(Draw(3) == 0 ? ElementType::kFloat16 : ElementType::kInt64),
      num_elements_(Draw(4) == 0 ? 1 << 16 : ExplorerDenseWorkspace::kMaxElements) {}

DenseGradients::CallerMemory::~CallerMemory() { std::fill(memory_.begin(), memory_.end(), '\x77'); }

Gradient DenseGradients::CallerMemory::Make(const DenseGradients& gradients, int number,
                                            bool is_borrowed) {
  constexpr auto kCount = static_cast<size_t>(ExplorerDenseWorkspace::kMaxElements);
  if (gradients.type_ == ElementType::kFloat16 && number >= kMaxFloat16Gradients) {
    Abort("a run has too many gradients of float16");
  }
  const auto value = static_cast<int64_t>(SetOf(number));
  const Float16 narrow = Float16::FromFloat(static_cast<float>(value));
  const size_t size = SizeOf(gradients.type_);
  memory_.resize(kCount * size);
  for (size_t i = 0; i < kCount; ++i) {
    const void* const from = size == sizeof narrow ? static_cast<const void*>(&narrow) : &value;
    std::memcpy(memory_.data() + i * size, from, size);
  }
  Gradient gradient;
  gradient.shape = Shape::Of({gradients.num_elements_});
  gradient.owned = !is_borrowed;
  gradient.values = BufferOf(memory_.data(), memory_.size(), is_borrowed);
  return gradient;
}

GradientSet DenseGradients::SetIn(const Value& value, bool* is_wrong) const {
  GradientSet sets[ExplorerDenseWorkspace::kMaxElements];
  for (size_t i = 0; i < std::size(sets); ++i) {
    if (type_ == ElementType::kFloat16) {
      sets[i] = static_cast<GradientSet>(
          Float16::ToFloat(static_cast<const Float16*>(value.values.data())[i]));
    } else {
      sets[i] = static_cast<const GradientSet*>(value.values.data())[i];
    }
    if (sets[i] != sets[0]) *is_wrong = true;
  }
  return sets[0];
}

SparseGradients::SparseGradients() : num_rows_(1 + Draw(4)) {}

SparseGradients::CallerMemory::~CallerMemory() {
  std::fill(indices_.begin(), indices_.end(), -5);
  std::fill(values_.begin(), values_.end(), 0x7777777777777777);
}

Gradient SparseGradients::CallerMemory::Make(const SparseGradients& gradients, int number,
                                             bool is_borrowed) {
  for (int64_t row = 0; row < gradients.num_rows_; ++row) {
    indices_.push_back(row * kRowStride + (row % 2 == 0 ? 0 : number));
  }
  values_.assign(indices_.size() * kWidth, static_cast<int64_t>(SetOf(number)));
  Gradient gradient;
  gradient.indices_shape = Shape::Of({gradients.num_rows_});
  gradient.shape = Shape::Of({gradients.num_rows_, kWidth});
  gradient.owns_indices = gradient.owned = !is_borrowed;
  gradient.indices = BufferOf(indices_.data(), indices_.size() * sizeof(int64_t), is_borrowed);
  gradient.values = BufferOf(values_.data(), values_.size() * sizeof(int64_t), is_borrowed);
  return gradient;
}

GradientSet SparseGradients::SetIn(const Value& value, bool* is_wrong) const {
  const auto* const indices = static_cast<const int64_t*>(value.indices.data());
  const auto* const values = static_cast<const GradientSet*>(value.values.data());
  const int64_t num_rows = value.shape.dim(0);
  const GradientSet set = values[0];  // Row 0 is common to all gradients.
  const int64_t num_common = (num_rows_ + 1) / 2;
  const int64_t num_own = num_rows_ / 2;
  bool is_right = num_rows == num_common + num_own * CountOf(set) && indices[0] == 0;
  for (int64_t i = 0; i < num_rows && is_right; ++i) {
    const int64_t row = indices[i] / kRowStride;
    const int64_t number = indices[i] % kRowStride;
    const GradientSet expected = row % 2 == 0 ? set : SetOf(static_cast<int>(number));
    is_right = (i == 0 || indices[i] > indices[i - 1]) && (expected & ~set) == 0 &&
               values[kWidth * i] == expected && values[kWidth * i + 1] == expected;
  }
  if (!is_right) *is_wrong = true;
  return set;
}

}  // namespace condacc::explorer
