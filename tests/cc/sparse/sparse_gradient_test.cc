#include "cc/core/sparse/sparse_gradient.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {
namespace {

const Shape kUnknown = Shape::UnknownRank();

SparseShapes Parts(const std::vector<int64_t>& indices, const std::vector<int64_t>& values) {
  SparseShapes shapes;
  shapes.indices = Shape::Of(indices);
  shapes.values = Shape::Of(values);
  return shapes;
}

SparseShapes Parts(const std::vector<int64_t>& indices, const std::vector<int64_t>& values,
                   const std::vector<int64_t>& dense) {
  SparseShapes shapes = Parts(indices, values);
  shapes.has_dense = true;
  shapes.dense = Shape::Of(dense);
  return shapes;
}

std::string Check(const SparseShapes& shapes, const Shape& expected,
                  const Shape* accumulated = nullptr) {
  return CheckSparseShapes(shapes, expected, accumulated).message();
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

TEST(NumDenseRows, IsWhatEitherSideSays) {
  EXPECT_EQ(NumDenseRows(Parts({1}, {1, 2}), kUnknown), -1);
  EXPECT_EQ(NumDenseRows(Parts({1}, {1, 2}), Shape::Of({-1, 2})), -1);
  EXPECT_EQ(NumDenseRows(Parts({1}, {1, 2}), Shape::Of({7, 2})), 7);
  EXPECT_EQ(NumDenseRows(Parts({1}, {1, 2}, {5, 2}), Shape::Of({-1, 2})), 5);
  EXPECT_EQ(NumDenseRows(Parts({1}, {1, 2}, {-1, 2}), kUnknown), -1);
  EXPECT_EQ(NumDenseRows(Parts({1}, {1, 2}, {-7, 2}), kUnknown), -1);
}

TEST(SurveyRows, FindsRangeAndOrder) {
  RowSurvey survey;
  const std::vector<int64_t> rows = {2, 5, 9};
  ASSERT_TRUE(SurveyRows(rows.data(), 3, 10, &survey).ok());
  EXPECT_TRUE(survey.is_ascending);
  EXPECT_EQ(survey.list.min, 2);
  EXPECT_EQ(survey.list.max, 9);
  EXPECT_EQ(survey.list.size, 3u);
  for (const std::vector<int64_t>& others : {std::vector<int64_t>{2, 2}, {5, 2}}) {
    ASSERT_TRUE(SurveyRows(others.data(), 2, -1, &survey).ok());
    EXPECT_FALSE(survey.is_ascending);
  }
}

TEST(SurveyRows, NamesTheRowThatIsOutOfRange) {
  RowSurvey survey;
  const std::vector<int64_t> rows = {2, 3, -1};
  EXPECT_EQ(SurveyRows(rows.data(), 3, 3, &survey).message(),
            "Shape mismatch: index of slice 1 exceeded limits of shape; index is 3 exceeded 3");
  EXPECT_EQ(SurveyRows(rows.data(), 3, -1, &survey).message(),
            "Shape mismatch: index of slice 2 is negative; index is -1");
}

}  // namespace
}  // namespace condacc
