#include "cc/core/sparse/sparse_checks.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {
namespace {

const Shape kUnknown = Shape::UnknownRank();

Gradient Parts(const std::vector<int64_t>& indices, const std::vector<int64_t>& values) {
  Gradient gradient;
  gradient.indices_shape = Shape::Of(indices);
  gradient.shape = Shape::Of(values);
  return gradient;
}

Gradient Parts(const std::vector<int64_t>& indices, const std::vector<int64_t>& values,
               const std::vector<int64_t>& dense) {
  Gradient gradient = Parts(indices, values);
  gradient.dense_shape = Shape::Of(dense);
  return gradient;
}

std::string Check(const Gradient& gradient, const Shape& expected,
                  const Shape* accumulated = nullptr) {
  return CheckSparseShapes(gradient, expected, accumulated).message();
}

TEST(CheckSparseShapes, AcceptsWhatFits) {
  const Shape accumulated = Shape::Of({9, 2});
  EXPECT_EQ(Check(Parts({3}, {3, 2}), kUnknown), "");
  EXPECT_EQ(Check(Parts({3}, {3}), Shape::Of({})), "") << "a scalar's shape is unknown";
  EXPECT_EQ(Check(Parts({0}, {0, 2}), Shape::Of({4, 2})), "");
  EXPECT_EQ(Check(Parts({3}, {3, 2}, {4, 2}), Shape::Of({-1, 2})), "");
  EXPECT_EQ(Check(Parts({3}, {3, 2}), Shape::Of({4, -1}), &accumulated), "");
}

TEST(CheckSparseShapes, AcceptsValuesOfAHigherRankThanTheConstructorsShape) {
  EXPECT_EQ(Check(Parts({1}, {1, 2}), Shape::Of({3})), "");
  EXPECT_EQ(Check(Parts({1}, {1, 2, 4}), Shape::Of({3, 2})), "");
  EXPECT_EQ(Check(Parts({2}, {2, 5, 2, 2}, {2, 5, 2, 2}), Shape::Of({2, -1})), "");
}

TEST(CheckSparseShapes, TakesTheFirstDimensionsOfTheDenseShapeOnly) {
  EXPECT_EQ(Check(Parts({1}, {1, 2}, {3}), kUnknown), "") << "the number of rows alone";
  EXPECT_EQ(Check(Parts({1}, {1, 2}, {3, 3}), kUnknown), "") << "values decide their own width";
  EXPECT_EQ(Check(Parts({1}, {1, 2}, {-1, 2}), kUnknown), "") << "as another accumulator has it";
  EXPECT_EQ(Check(Parts({1}, {1, 2}, {3, 2, 9}), Shape::Of({3, 2})), "");
}

TEST(CheckSparseShapes, NamesWhatDoesNotFit) {
  const Shape accumulated = Shape::Of({9, 2});
  EXPECT_EQ(Check(Parts({2, 2}, {2, 2}), kUnknown),
            "Input indices should be vector but received shape: [2,2]");
  EXPECT_EQ(Check(Parts({1}, {}), kUnknown), "Values cannot be 0-dimensional.");
  EXPECT_EQ(Check(Parts({2}, {1, 2}), kUnknown), "Expected 2 non-empty input values, got 1");
  EXPECT_EQ(Check(Parts({1}, {1, 2}, {3, 2}), Shape::Of({3, 2, 4})),
            "Shape mismatch: expected shape rank at least 3, got 2");
  EXPECT_EQ(Check(Parts({1}, {1, 2}, {3, 3}), Shape::Of({3, 2})),
            "Shape mismatch: expected shape dim 1 to be 2, got 3");
  EXPECT_EQ(Check(Parts({1}, {1, 2}), Shape::Of({3, 2, 4})),
            "Shape mismatch: expected values rank at least 3, got 2");
  EXPECT_EQ(Check(Parts({1}, {1, 3}), Shape::Of({-1, 2})),
            "Shape mismatch: expected values dim 1 to be 2, got 3");
  EXPECT_EQ(Check(Parts({1}, {1, 3}), kUnknown, &accumulated),
            "Shape mismatch: expected values dim 1 to be 2, got 3");
  EXPECT_EQ(Check(Parts({1}, {1}), kUnknown, &accumulated),
            "Shape mismatch: expected values rank 2, got 1");
  const Shape of_rank_4 = Shape::Of({1, 2, 2, 2});
  EXPECT_EQ(Check(Parts({1}, {1, 2, 2}), Shape::Of({2, -1}), &of_rank_4),
            "Shape mismatch: expected values rank 4, got 3");
  EXPECT_EQ(Check(Parts({1}, {1, 2, 2, 3}), Shape::Of({2, -1}), &of_rank_4),
            "Shape mismatch: expected values dim 3 to be 2, got 3");
}

TEST(CheckSparseShapes, RefusesRowsTooWideToBeCounted) {
  const int64_t wide = int64_t{1} << 40;
  EXPECT_EQ(Check(Parts({0}, {0, wide}), kUnknown), "");
  EXPECT_EQ(Check(Parts({1}, {1, 2 * wide, 0}), kUnknown),
            "Shape mismatch: expected rows of at most 2**40 elements, got values of shape "
            "[1,2199023255552,0]");
  EXPECT_NE(Check(Parts({0}, {0, wide, 0, 2}), kUnknown), "");
}

TEST(IndexBound, IsWhatEitherSideSays) {
  EXPECT_EQ(IndexBound(Parts({1}, {1, 2}), kUnknown), -1);
  EXPECT_EQ(IndexBound(Parts({1}, {1, 2}), Shape::Of({-1, 2})), -1);
  EXPECT_EQ(IndexBound(Parts({1}, {1, 2}), Shape::Of({7, 2})), 7);
  EXPECT_EQ(IndexBound(Parts({1}, {1, 2}, {5, 2}), Shape::Of({-1, 2})), 5);
  EXPECT_EQ(IndexBound(Parts({1}, {1, 2}, {-1, 2}), kUnknown), -1);
  EXPECT_EQ(IndexBound(Parts({1}, {1, 2}, {-7, 2}), kUnknown), -1);
}

TEST(CheckIndices, FindsRangeAndOrder) {
  const std::vector<int64_t> indices = {2, 5, 9};
  IndexSpan span{indices.data(), 3};
  ASSERT_TRUE(CheckIndices(10, &span).ok());
  EXPECT_TRUE(span.is_ascending);
  EXPECT_EQ(span.min, 2);
  EXPECT_EQ(span.max, 9);
  for (const std::vector<int64_t>& others : {std::vector<int64_t>{2, 2}, {5, 2}}) {
    span = {others.data(), 2};
    ASSERT_TRUE(CheckIndices(-1, &span).ok());
    EXPECT_FALSE(span.is_ascending);
  }
}

TEST(CheckIndices, NamesTheIndexThatIsOutOfRange) {
  const std::vector<int64_t> indices = {2, 3, -1};
  IndexSpan span{indices.data(), 3};
  EXPECT_EQ(CheckIndices(3, &span).message(),
            "Shape mismatch: index of slice 1 exceeded limits of shape; index is 3 exceeded 3");
  EXPECT_EQ(CheckIndices(-1, &span).message(),
            "Shape mismatch: index of slice 2 is negative; index is -1");
}

}  // namespace
}  // namespace condacc
