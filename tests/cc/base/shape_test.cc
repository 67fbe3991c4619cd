#include "cc/core/base/shape.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {
namespace {

constexpr int64_t kAny = Shape::kUnknownDim;

TEST(Shape, ADefaultOneIsAScalars) {
  const Shape shape;
  EXPECT_TRUE(shape.has_rank());
  EXPECT_EQ(shape.rank(), 0);
  EXPECT_EQ(shape.num_elements(), 1);
  EXPECT_EQ(shape.ToString(), "[]");
}

TEST(Shape, OneOfUnknownRankHasNoRank) {
  EXPECT_FALSE(Shape::UnknownRank().has_rank());
  EXPECT_EQ(Shape::UnknownRank().ToString(), "<unknown>");
}

TEST(Shape, IsWrittenWithAQuestionMarkForAnUnknownDimension) {
  EXPECT_EQ(Shape::Of({3, kAny, 0}).ToString(), "[3,?,0]");
}

TEST(Shape, KeepsEveryDimensionOfAnyRank) {
  for (int64_t rank = 0; rank <= 20; ++rank) {
    Shape shape;
    std::vector<int64_t> dims;
    for (int64_t i = 0; i < rank; ++i) {
      dims.push_back(10 + i);
      shape.AddDim(10 + i);
    }
    ASSERT_EQ(shape.rank(), rank);
    for (int i = 0; i < shape.rank(); ++i) EXPECT_EQ(shape.dim(i), 10 + i);
    EXPECT_EQ(shape, Shape::Of(dims));
    const Shape copy = shape;
    EXPECT_EQ(copy, shape);
    EXPECT_EQ(Shape(std::move(shape)), copy);
  }
}

TEST(Shape, GetsAnotherFirstDimension) {
  EXPECT_EQ(Shape::Of({1, 2, 3, 4, 5, 6, 7}).WithFirstDim(9), Shape::Of({9, 2, 3, 4, 5, 6, 7}));
}

TEST(Shape, MultipliesItsDimensions) {
  EXPECT_EQ(Shape::Of({5}).num_elements(), 5);
  EXPECT_EQ(Shape::Of({2, 3, 4}).num_elements(), 24);
  EXPECT_EQ(Shape::Of({2, 0, 4}).num_elements(), 0);
  EXPECT_EQ(Shape::Of({1, 2, 1, 2, 1, 2, 1, 2}).num_elements(), 16);
  EXPECT_EQ(Shape::Of({int64_t{1} << 31, int64_t{1} << 31}).num_elements(), int64_t{1} << 62);
}

TEST(Shape, EqualityLooksAtRankAndDimensions) {
  EXPECT_EQ(Shape::Of({2, kAny}), Shape::Of({2, kAny}));
  EXPECT_EQ(Shape::UnknownRank(), Shape::UnknownRank());
  EXPECT_NE(Shape::Of({2, kAny}), Shape::Of({2, 3}));
  EXPECT_NE(Shape::Of({2}), Shape::Of({2, 1}));
  EXPECT_NE(Shape(), Shape::UnknownRank());
  EXPECT_NE(Shape::Of({1, 1, 1, 1, 1, 1, 1}), Shape::Of({1, 1, 1, 1, 1, 1, 2}));
}

void ExpectCompatible(bool expected, const Shape& a, const Shape& b) {
  EXPECT_EQ(a.IsCompatibleWith(b), expected) << a.ToString() << b.ToString();
  EXPECT_EQ(b.IsCompatibleWith(a), expected) << b.ToString() << a.ToString();
}

TEST(Shape, CompatibilityAllowsForWhatIsUnknown) {
  ExpectCompatible(true, Shape::UnknownRank(), Shape::UnknownRank());
  ExpectCompatible(true, Shape::UnknownRank(), Shape());
  ExpectCompatible(true, Shape::UnknownRank(), Shape::Of({2, 3}));
  ExpectCompatible(true, Shape::Of({2, kAny}), Shape::Of({2, 3}));
  ExpectCompatible(true, Shape::Of({2, kAny}), Shape::Of({kAny, 3}));
  ExpectCompatible(true, Shape::Of({kAny}), Shape::Of({0}));
  ExpectCompatible(true, Shape(), Shape());
}

TEST(Shape, CompatibilityRefusesAnotherRankOrDimension) {
  ExpectCompatible(false, Shape(), Shape::Of({1}));
  ExpectCompatible(false, Shape::Of({kAny}), Shape::Of({kAny, kAny}));
  ExpectCompatible(false, Shape::Of({2, 3}), Shape::Of({2, 4}));
  ExpectCompatible(false, Shape::Of({2, kAny}), Shape::Of({3, kAny}));
  ExpectCompatible(false, Shape::Of({0}), Shape::Of({1}));
  ExpectCompatible(false, Shape::Of({1, 1, 1, 1, 1, 1, 1}), Shape::Of({1, 1, 1, 1, 1, 1, 2}));
}

}  // namespace
}  // namespace condacc
