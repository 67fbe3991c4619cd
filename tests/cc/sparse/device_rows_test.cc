// Tests sparse sums on a device, with the CPU as the device.
#include "cc/core/sparse/device_rows.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cc/sparse/device_rows_fixture.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

TEST_F(DeviceRowsTest, HasTheBitsOfAddingRowAfterRow) {
  for (const auto reduction : {Reduction::kMean, Reduction::kSum, Reduction::kGlobalMean}) {
    for (const bool folds : {false, true}) {
      for (const bool knows_range : {false, true}) {
        for (const size_t width : {1, 3, 4, 8}) {
          SCOPED_TRACE(testing::Message() << "seed " << seed_ << ", folds " << folds << ", width "
                                          << width << ", knows range " << knows_range);
          auto options = Options(folds ? 1 : size_t{1} << 30);
          options.sum.reduction = reduction;
          if (knows_range) options.sum.shape = Shape::Of({kRange, static_cast<int64_t>(width)});
          Make(options);
          for (const size_t count : {1, 2, 5, 40, 70}) {
            const std::vector<Slices> gradients = Gradients(count, width);
            ApplyAll(gradients, width);
            EXPECT_EQ(Take(count), Merged(gradients, width, reduction)) << "of " << count;
          }
        }
      }
    }
  }
}

TEST_F(DeviceRowsTest, ALongRowIsSummedInOrderOfArrival) {
  for (const size_t fold_bytes : {size_t{1}, size_t{1} << 30}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed_ << ", fold bytes " << fold_bytes);
    Make(Options(fold_bytes));
    std::vector<Slices> gradients(40);
    for (Slices& slices : gradients) slices = RandomSlices(&random_, 50, 3, 4);
    ApplyAll(gradients, 4);
    EXPECT_EQ(Take(40), Merged(gradients, 4, Reduction::kMean));
  }
}

TEST_F(DeviceRowsTest, RowsOfAnyNumberAreSortedWhole) {
  constexpr int64_t kWideRange = int64_t{1} << 40;
  for (const bool knows_range : {false, true}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed_ << ", knows range " << knows_range);
    auto options = Options();
    if (knows_range) options.sum.shape = Shape::Of({kWideRange, 1});
    Make(options);
    std::vector<Slices> gradients(3);
    for (Slices& slices : gradients) slices = RandomSlices(&random_, 20, kWideRange, 1);
    ApplyAll(gradients, 1);
    EXPECT_EQ(Take(3), Merged(gradients, 1, Reduction::kMean));
  }
}

TEST_F(DeviceRowsTest, FoldsHappenWhenTheyAreDue) {
  Make(Options(/*fold_bytes=*/1));
  ApplyAll(Gradients(40, 2), 2);
  EXPECT_GE(device_.num_sorts(), 5);
  const int num_folds = device_.num_sorts();
  Take(40);
  EXPECT_EQ(device_.num_sorts(), num_folds + 1);
  EXPECT_EQ(budget_.num_held(), 0u);
}

TEST_F(DeviceRowsTest, AppliesDoNotWaitForTheDevice) {
  Make(Options());
  ApplyAll(Gradients(40, 2), 2);
  EXPECT_EQ(device_.num_sorts(), 0);
}

TEST_F(DeviceRowsTest, NarrowSumsAreThoseOfTheCpu) {
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBFloat16}) {
    for (const size_t fold_bytes : {size_t{1}, size_t{1} << 30}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed_);
      auto options = Options(fold_bytes);
      options.sum.type = type;
      Make(options);
      Accumulator::Options on_cpu;
      on_cpu.new_sum = NewSparseSum<HostRows>;
      on_cpu.sum = options.sum;
      Accumulator expected(on_cpu);
      TestSparseWorkspace workspace;
      for (int i = 0; i < 20; ++i) {
        std::vector<uint16_t> values(6 * 4);
        for (uint16_t& value : values) {
          const float real = std::normal_distribution<float>()(random_);
          value = type == ElementType::kFloat16 ? Float16::FromFloat(real).bits
                                                : BFloat16::FromFloat(real).bits;
        }
        Slices slices = RandomSlices(&random_, 6, 9, 2);  // 2 floats are as long as 4 of these.
        std::memcpy(slices.values.data(), values.data(), values.size() * sizeof(uint16_t));
        for (const bool is_device : {true, false}) {
          auto gradient = GradientOf(slices, 2, /*owned=*/true);
          gradient.shape = Shape::Of({6, 4});
          const Status status = is_device
                                    ? Apply(std::move(gradient))
                                    : expected.Apply(0, std::move(gradient), workspace).status();
          ASSERT_TRUE(status.ok()) << status.message();
        }
      }
      DeviceTake got(20);
      SparseTake wanted(20);
      Request(got);
      expected.Request(wanted.ptr(), nullptr, workspace);
      ASSERT_TRUE(got.status().ok() && wanted.status().ok());
      const auto size = static_cast<size_t>(wanted.value().shape.num_elements());
      ASSERT_EQ(static_cast<size_t>(got.value().shape.num_elements()), size);
      EXPECT_EQ(std::memcmp(got.value().values.data(), wanted.value().values.data(), 2 * size), 0);
    }
  }
}

TEST_F(DeviceRowsTest, NarrowIndicesAreWidened) {
  Make(Options());
  const int32_t indices[] = {7, 2, 7};
  const float values[] = {1, 2, 4};
  auto gradient = GradientOf({{0, 0, 0}, {1, 2, 4}}, 1, /*owned=*/true);
  gradient.indices = BufferOf(indices, sizeof(indices));
  gradient.values = BufferOf(values, sizeof(values));
  gradient.indices_are_int32 = true;
  ASSERT_TRUE(Apply(std::move(gradient)).ok());
  EXPECT_EQ(Take(1), (Slices{{2, 7}, {2, 5}}));
}

TEST_F(DeviceRowsTest, EmptyGradientsCountToo) {
  auto options = Options(/*fold_bytes=*/1);
  options.sum.reduction = Reduction::kGlobalMean;
  Make(options);
  ApplyAll({{{}, {}}, {{}, {}}}, 2);
  EXPECT_EQ(Take(2), (Slices{{}, {}}));
  ApplyAll({{{}, {}}, {{3}, {2, 4}}}, 2);
  EXPECT_EQ(Take(2), (Slices{{3}, {1, 2}}));
}

TEST_F(DeviceRowsTest, ARefusedTakeTakesNothing) {
  Make(Options());
  const std::vector<Slices> gradients = Gradients(3, 2);
  ApplyAll(gradients, 2);
  device_.Refuse(true);
  DeviceTake refused(3);
  Request(refused);
  EXPECT_EQ(refused.status().code(), StatusCode::kInternal);
  EXPECT_EQ(refused.status().message(), "The device refuses");
  device_.Refuse(false);
  EXPECT_EQ(Take(3), Merged(gradients, 2, Reduction::kMean));
}

TEST_F(DeviceRowsTest, ARefusedFoldSpoilsItsRoundOnly) {
  Make(Options(/*fold_bytes=*/1));
  device_.Refuse(true);
  ApplyAll(Gradients(10, 2), 2);
  device_.Refuse(false);
  DeviceTake take(10);
  Request(take);
  EXPECT_EQ(take.status().code(), StatusCode::kInternal);
  const std::vector<Slices> gradients = Gradients(10, 2);
  ApplyAll(gradients, 2);
  EXPECT_EQ(Take(10), Merged(gradients, 2, Reduction::kMean));
}

TEST(NumIndexBitsTest, AreEnoughForTheHighestIndex) {
  EXPECT_EQ(NumIndexBits(-1), 64);
  EXPECT_EQ(NumIndexBits(0), 1);
  EXPECT_EQ(NumIndexBits(1), 1);
  EXPECT_EQ(NumIndexBits(2), 1);
  EXPECT_EQ(NumIndexBits(3), 2);
  EXPECT_EQ(NumIndexBits(int64_t{1} << 32), 32);
  EXPECT_EQ(NumIndexBits((int64_t{1} << 32) + 1), 33);
  EXPECT_EQ(NumIndexBits(INT64_MAX), 63);
}

}  // namespace
}  // namespace condacc
