// The shape of a tensor, which may be only partially known.
#ifndef CONDACC_CORE_BASE_SHAPE_H_
#define CONDACC_CORE_BASE_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/element_type.h"

namespace condacc {

// A tensor shape whose rank, or some of whose dimensions, may be unknown. The first kInlineRank
// dimensions are stored in the object, so that the shapes of most gradients allocate nothing.
class Shape {
 public:
  static constexpr int64_t kUnknownDim = -1;

  Shape() = default;  // Has rank 0.
  static Shape UnknownRank();
  static Shape Of(const std::vector<int64_t>& dims);

  void AddDim(int64_t size);
  bool has_rank() const { return rank_ >= 0; }
  int rank() const { return rank_; }
  int64_t dim(int i) const { return i < kInlineRank ? inline_[i] : rest_[i - kInlineRank]; }

  // Returns the same shape with another first dimension. The rank must be known and not 0.
  Shape WithFirstDim(int64_t size) const;

  // Returns whether some fully known shape agrees with both.
  bool IsCompatibleWith(const Shape& other) const;
  bool operator==(const Shape& other) const;
  bool operator!=(const Shape& other) const { return !(*this == other); }

  // Returns the number of elements. The shape must be fully known.
  int64_t num_elements() const;

  // Returns a text such as "[3,?]", or "<unknown>" if the rank is unknown.
  std::string ToString() const;

 private:
  static constexpr int kInlineRank = 6;

  int rank_ = 0;
  int64_t inline_[kInlineRank] = {};
  std::vector<int64_t> rest_;
};

// Returns the size of a tensor whose shape is fully known.
inline size_t NumBytes(ElementType type, const Shape& shape) {
  return static_cast<size_t>(shape.num_elements()) * SizeOf(type);
}

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_SHAPE_H_
