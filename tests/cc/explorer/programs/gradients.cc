#include "tests/cc/explorer/programs/gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cc/core/base/float16.h"
#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc::explorer {
namespace {

// The largest number of gradients for which every sum is exact in float16.
constexpr int kMaxFloat16Gradients = 11;

// Moves memory of the caller to a buffer that the accumulator may keep, or lends it.
Buffer MoveOrLend(void* data, size_t num_bytes, bool is_borrowed) {
  if (is_borrowed) return BorrowedBuffer(data, num_bytes);
  Buffer buffer = NewBuffer(num_bytes);
  std::memcpy(buffer.data(), data, num_bytes);
  return buffer;
}

}  // namespace

double GradientWeights::Of(int number) const {
  constexpr double kExact[] = {1, 0.5, 2, 3};
  constexpr double kInexact[] = {0.1, 0.2, 0.3, 0.7};
  return num_contributors_ == 0 ? kExact[number % 4] : kInexact[number % 4];
}

double GradientWeights::Sum(GradientSet set) const {
  double sum = 0;
  const int step = std::max(num_contributors_, 1);
  for (int contributor = 0; contributor < step; ++contributor) {
    for (int i = contributor; i < kMaxGradients; i += step) {
      if ((set & SetOf(i)) != 0) sum += Of(i);
    }
  }
  return sum;
}

// A gradient of 2^16 elements or more is large for DenseSum.
DenseGradients::DenseGradients()
    : num_elements_(Draw(4) == 0 ? ExplorerDenseWorkspace::kLargeSize
                                 : ExplorerDenseWorkspace::kMaxElements),
      has_shape_(Chance(66)) {
  const int type = Draw(4);
  type_ = type == 0   ? ElementType::kFloat16
          : type == 1 ? ElementType::kFloat64
                      : ElementType::kInt64;
}

void DenseGradients::Set(SumOptions* options) const {
  options->type = type_;
  options->reduction = type_ == ElementType::kFloat64 ? Reduction::kMean : Reduction::kSum;
  if (has_shape_) options->shape = Shape::Of({num_elements_});
}

double DenseGradients::WeightOf(int number) const {
  return type_ == ElementType::kFloat64 ? weights_.Of(number) : 1;
}

// Any shape fits an empty accumulator that was not told the shape.
Fault DenseGradients::DrawFault() const { return has_shape_ ? Fault::kShape : Fault::kWeight; }

DenseGradients::CallerMemory::~CallerMemory() { std::fill(memory_.begin(), memory_.end(), '\x77'); }

Gradient DenseGradients::CallerMemory::Make(const DenseGradients& gradients,
                                            const Operation& apply) {
  constexpr auto kCount = static_cast<size_t>(ExplorerDenseWorkspace::kMaxElements);
  if (gradients.type_ == ElementType::kFloat16 && apply.gradient >= kMaxFloat16Gradients) {
    Abort("a run has too many gradients of float16");
  }
  const auto value = static_cast<int64_t>(SetOf(apply.gradient));
  const Float16 narrow = Float16::FromFloat(static_cast<float>(value));
  const double wide[] = {gradients.WeightOf(apply.gradient), static_cast<double>(value), 1};
  const size_t size = SizeOf(gradients.type_);
  memory_.resize(kCount * size);
  for (size_t i = 0; i < kCount; ++i) {
    const void* const from = gradients.type_ == ElementType::kFloat16 ? &narrow
                             : gradients.type_ == ElementType::kFloat64
                                 ? &wide[i]
                                 : static_cast<const void*>(&value);
    std::memcpy(memory_.data() + i * size, from, size);
  }
  Gradient gradient;
  gradient.shape = Shape::Of({gradients.num_elements_ + (apply.fault == Fault::kShape ? 1 : 0)});
  gradient.owned = !apply.is_borrowed;
  gradient.weight = apply.fault == Fault::kWeight ? -1 : gradients.WeightOf(apply.gradient);
  gradient.values = MoveOrLend(memory_.data(), memory_.size(), apply.is_borrowed);
  return gradient;
}

GradientSet DenseGradients::SetIn(const Value& value, bool* is_wrong) const {
  GradientSet sets[ExplorerDenseWorkspace::kMaxElements];
  if (type_ == ElementType::kFloat64) {
    return SetInMean(static_cast<const double*>(value.values.data()), is_wrong);
  }
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

GradientSet DenseGradients::SetInSaved(const SavedSum& saved, bool* is_wrong) const {
  const char* const values = saved.values;
  constexpr auto kCount = static_cast<size_t>(ExplorerDenseWorkspace::kMaxElements);
  double sums[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    if (type_ == ElementType::kFloat16) {
      float sum = 0;
      std::memcpy(&sum, values + i * sizeof(sum), sizeof(sum));
      sums[i] = sum;
    } else if (type_ == ElementType::kFloat64) {
      std::memcpy(&sums[i], values + i * sizeof(double), sizeof(double));
    } else {
      int64_t sum = 0;
      std::memcpy(&sum, values + i * sizeof(sum), sizeof(sum));
      sums[i] = static_cast<double>(sum);
    }
  }
  const bool is_mean = type_ == ElementType::kFloat64;
  const bool is_set = sums[1] >= 0 && sums[1] < static_cast<double>(SetOf(kMaxGradients));
  const auto set = is_set ? static_cast<GradientSet>(sums[1]) : 0;
  *is_wrong |= !is_set || sums[0] != (is_mean ? weights_.Sum(set) : sums[1]) ||
               sums[2] != (is_mean ? CountOf(set) : sums[1]);
  return set;
}

GradientSet DenseGradients::SetInEarly(const SavedGradient& early) const {
  const char* const element = early.values + SizeOf(type_);  // The second one.
  if (type_ == ElementType::kFloat16) {
    Float16 narrow;
    std::memcpy(&narrow, element, sizeof(narrow));
    return static_cast<GradientSet>(Float16::ToFloat(narrow));
  }
  if (type_ == ElementType::kFloat64) {
    double wide = 0;
    std::memcpy(&wide, element, sizeof(wide));
    return static_cast<GradientSet>(wide);
  }
  int64_t value = 0;
  std::memcpy(&value, element, sizeof(value));
  return static_cast<GradientSet>(value);
}

// The elements are the sum of the weights, the set, and the number of gradients, all divided by the
// sum of the weights.
GradientSet DenseGradients::SetInMean(const double* values, bool* is_wrong) const {
  for (int count = 1; count <= kMaxGradients; ++count) {
    const auto set = static_cast<GradientSet>(std::llround(values[1] / values[2] * count));
    const double weight = weights_.Sum(set);
    if (CountOf(set) != count || values[0] != 1) continue;
    if (values[1] == static_cast<double>(set) / weight && values[2] == count / weight) return set;
  }
  *is_wrong = true;
  return 0;
}

SparseGradients::SparseGradients()
    : SparseGradients(Chance(50) ? Reduction::kMean : Reduction::kGlobalMean) {}

SparseGradients::SparseGradients(Reduction mean)
    : reduction_(Chance(50) ? Reduction::kSum : mean),
      num_rows_(1 + Draw(kMaxRows)),
      has_shape_(Chance(50)),
      indices_are_int32_(Chance(20)) {
  // The rows that only one gradient has show which gradients there are.
  if (reduction_ != Reduction::kSum) num_rows_ = std::max<int64_t>(num_rows_, 2);
}

void SparseGradients::Set(SumOptions* options) const {
  options->type = reduction_ == Reduction::kSum ? ElementType::kInt64 : ElementType::kFloat64;
  options->reduction = reduction_;
  options->shape =
      Shape::Of({has_shape_ ? (kMaxRows + 1) * kRowStride : Shape::kUnknownDim, kWidth});
}

double SparseGradients::WeightOf(int number) const {
  return reduction_ == Reduction::kSum ? 1 : weights_.Of(number);
}

Fault SparseGradients::DrawFault() const { return Chance(25) ? Fault::kShape : Fault::kIndex; }

SparseGradients::CallerMemory::~CallerMemory() {
  std::fill(indices_.begin(), indices_.end(), -5);
  std::fill(narrow_indices_.begin(), narrow_indices_.end(), -5);
  std::fill(values_.begin(), values_.end(), 0x7777777777777777);
}

Gradient SparseGradients::CallerMemory::Make(const SparseGradients& gradients,
                                             const Operation& apply) {
  const int number = apply.gradient;
  for (int64_t row = 0; row < gradients.num_rows_; ++row) {
    indices_.push_back(row * kRowStride + (row % 2 == 0 ? 0 : number));
  }
  if (apply.fault == Fault::kIndex) {
    const bool is_high = gradients.has_shape_ && number % 2 == 0;
    indices_[static_cast<size_t>(number) % indices_.size()] =
        is_high ? (kMaxRows + 1) * kRowStride : -1 - number;
  }
  const int64_t width = kWidth + (apply.fault == Fault::kShape ? 1 : 0);
  auto value = static_cast<int64_t>(SetOf(number));
  const auto wide = static_cast<double>(value);
  if (gradients.reduction_ != Reduction::kSum) std::memcpy(&value, &wide, sizeof value);
  values_.assign(indices_.size() * static_cast<size_t>(width), value);
  if (gradients.reduction_ != Reduction::kSum) {
    const double weight = gradients.WeightOf(number);
    for (size_t i = 1; i < values_.size(); i += static_cast<size_t>(width)) {
      std::memcpy(&values_[i], &weight, sizeof weight);
    }
  }
  Gradient gradient;
  gradient.indices_shape = Shape::Of({gradients.num_rows_});
  gradient.shape = Shape::Of({gradients.num_rows_, width});
  gradient.owns_indices = gradient.owned = !apply.is_borrowed;
  gradient.weight = apply.fault == Fault::kWeight ? std::nan("") : gradients.WeightOf(number);
  gradient.indices_are_int32 = gradients.indices_are_int32_;
  gradient.indices = BufferOfIndices(gradients, apply.is_borrowed);
  gradient.values = MoveOrLend(values_.data(), values_.size() * sizeof(int64_t), apply.is_borrowed);
  return gradient;
}

Buffer SparseGradients::CallerMemory::BufferOfIndices(const SparseGradients& gradients,
                                                      bool is_borrowed) {
  if (!gradients.indices_are_int32_) {
    return MoveOrLend(indices_.data(), indices_.size() * sizeof(int64_t), is_borrowed);
  }
  for (const int64_t index : indices_) narrow_indices_.push_back(static_cast<int32_t>(index));
  return MoveOrLend(narrow_indices_.data(), indices_.size() * sizeof(int32_t), is_borrowed);
}

GradientSet SparseGradients::SetIn(const Value& value, bool* is_wrong) const {
  return SetInRows(static_cast<const int64_t*>(value.indices.data()), value.values.data(),
                   value.shape.dim(0), /*are_means=*/true, is_wrong);
}

GradientSet SparseGradients::SetInSaved(const SavedSum& saved, bool* is_wrong) const {
  return SetInRows(reinterpret_cast<const int64_t*>(saved.indices), saved.values,
                   saved.shape.dim(0), /*are_means=*/false, is_wrong);
}

GradientSet SparseGradients::SetInEarly(const SavedGradient& early) const {
  if (reduction_ == Reduction::kSum) return *reinterpret_cast<const GradientSet*>(early.values);
  return static_cast<GradientSet>(*reinterpret_cast<const double*>(early.values));
}

GradientSet SparseGradients::SetInRows(const int64_t* indices, const void* values, int64_t num_rows,
                                       bool are_means, bool* is_wrong) const {
  const bool is_sum = reduction_ == Reduction::kSum;
  // Row 0 is common to all gradients, and odd rows belong to one.
  GradientSet set = is_sum && num_rows > 0 ? *static_cast<const GradientSet*>(values) : 0;
  for (int64_t i = 0; i < num_rows && !is_sum; ++i) {
    if (indices[i] / kRowStride % 2 == 1) set |= SetOf(static_cast<int>(indices[i] % kRowStride));
  }
  const int64_t num_common = (num_rows_ + 1) / 2;
  const int64_t num_own = num_rows_ / 2;
  bool is_right = set != 0 && num_rows == num_common + num_own * CountOf(set) && indices[0] == 0;
  for (int64_t i = 0; i < num_rows && is_right; ++i) {
    const int64_t row = indices[i] / kRowStride;
    const GradientSet expected =
        row % 2 == 0 ? set : SetOf(static_cast<int>(indices[i] % kRowStride));
    const double divisor =
        are_means ? weights_.Sum(reduction_ == Reduction::kMean ? expected : set) : 1;
    const double means[kWidth] = {static_cast<double>(expected) / divisor,
                                  weights_.Sum(expected) / divisor};
    is_right = (i == 0 || indices[i] > indices[i - 1]) && (expected & ~set) == 0;
    for (int64_t column = kWidth * i; column < kWidth * (i + 1); ++column) {
      is_right &= is_sum ? static_cast<const GradientSet*>(values)[column] == expected
                         : static_cast<const double*>(values)[column] == means[column % kWidth];
    }
  }
  if (!is_right) *is_wrong = true;
  return set;
}

}  // namespace condacc::explorer
