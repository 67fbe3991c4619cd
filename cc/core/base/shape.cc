#include "cc/core/base/shape.h"

#include <cstdint>
#include <string>
#include <vector>

namespace condacc {

Shape Shape::UnknownRank() {
  Shape shape;
  shape.rank_ = -1;
  return shape;
}

Shape Shape::Of(const std::vector<int64_t>& dims) {
  Shape shape;
  for (int64_t size : dims) shape.AddDim(size);
  return shape;
}

void Shape::AddDim(int64_t size) {
  if (rank_ < kInlineRank) {
    inline_[rank_] = size;
  } else {
    rest_.push_back(size);
  }
  ++rank_;
}

Shape Shape::WithFirstDim(int64_t size) const {
  Shape shape = *this;
  shape.inline_[0] = size;
  return shape;
}

bool Shape::IsCompatibleWith(const Shape& other) const {
  if (!has_rank() || !other.has_rank()) return true;
  if (rank_ != other.rank_) return false;
  for (int i = 0; i < rank_; ++i) {
    if (dim(i) != other.dim(i) && dim(i) != kUnknownDim && other.dim(i) != kUnknownDim) {
      return false;
    }
  }
  return true;
}

bool Shape::operator==(const Shape& other) const {
  if (rank_ != other.rank_) return false;
  for (int i = 0; i < rank_; ++i) {
    if (dim(i) != other.dim(i)) return false;
  }
  return true;
}

int64_t Shape::num_elements() const {
  int64_t product = 1;
  for (int i = 0; i < rank_; ++i) product *= dim(i);
  return product;
}

std::string Shape::ToString() const {
  if (!has_rank()) return "<unknown>";
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ',';
    text += dim(i) == kUnknownDim ? "?" : std::to_string(dim(i));
  }
  return text + ']';
}

}  // namespace condacc
