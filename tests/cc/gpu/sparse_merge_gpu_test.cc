// Tests sparse sums on a GPU with the launchers alone.
#include "cc/gpu/sparse_merge.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/base/buffer.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/sparse/sparse_sum.h"
#include "cc/gpu/pinned.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/recorded_take.h"
#include "tests/cc/base/failing_new.h"
#include "tests/cc/gpu/cuda_workspaces.h"
#include "tests/cc/gpu/gpu_support.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

struct Round {
  size_t num_gradients;
  size_t num_rows;  // The maximum for each gradient.
  int64_t range;
  size_t width;
  Reduction reduction = Reduction::kMean;
  bool knows_range = true;
  size_t fold_bytes = size_t{1} << 30;
};

class SparseMergeGpuTest : public GpuTest {
 protected:
  // Returns the sum or mean of the gradients. A status other than OK fails the test.
  Slices Sum(const Round& round, const std::vector<Slices>& gradients) {
    Accumulator::Options options;
    options.new_sum = NewSparseSum<DeviceRows>;
    options.sum.reduction = round.reduction;
    options.sum.fold_bytes = round.fold_bytes;
    if (round.knows_range) {
      options.sum.shape = Shape::Of({round.range, static_cast<int64_t>(round.width)});
    }
    CudaStream stream;
    Accumulator accumulator(options);
    CudaWorkspace device(&stream);
    for (const Slices& slices : gradients) {
      Gradient gradient;
      const auto size = static_cast<int64_t>(slices.indices.size());
      gradient.indices_shape = Shape::Of({size});
      gradient.shape = Shape::Of({size, static_cast<int64_t>(round.width)});
      gradient.indices = stream.CopyOf(slices.indices);
      gradient.values = stream.CopyOf(slices.values);
      gradient.owns_indices = gradient.owned = size % 2 == 0;
      const Status status = accumulator.Apply(0, std::move(gradient), device).status();
      EXPECT_TRUE(status.ok()) << status.message();
    }
    const RecordedTake take(static_cast<int64_t>(gradients.size()));
    accumulator.Request(take.ptr(), nullptr, device);
    EXPECT_TRUE(take.is_served()) << take.status().message();
    if (!take.is_served()) return Slices();
    const Value& value = take.value();
    return {stream.Read<int64_t>(value.indices, value.shape.dim(0)),
            stream.Read<float>(value.values, value.shape.num_elements())};
  }

  void Check(const Round& round) {
    SCOPED_TRACE(testing::Message() << round.num_gradients << " gradients, width " << round.width
                                    << ", seed " << seed());
    std::vector<Slices> gradients;
    for (size_t i = 0; i < round.num_gradients; ++i) {
      const size_t size = random_() % (round.num_rows + 1);
      gradients.push_back(RandomSlices(&random_, size, round.range, round.width));
    }
    const Slices got = Sum(round, gradients);
    EXPECT_EQ(got, Merged(gradients, round.width, round.reduction));
    EXPECT_EQ(got, Sum(round, gradients)) << "another run";
  }

  // Checks gradients that have two rows in `length` entries, and a row between them in one entry of
  // each gradient.
  void CheckLongRows(size_t length, const Round& round) {
    SCOPED_TRACE(testing::Message()
                 << length << " entries, width " << round.width << ", seed " << seed());
    std::vector<Slices> gradients(round.num_gradients);
    const int64_t by = round.range / 10;
    for (size_t g = 0; g < gradients.size(); ++g) {
      const size_t size = length / gradients.size() + (g < length % gradients.size() ? 1 : 0);
      gradients[g] = RandomSlices(&random_, 2 * size + 1, round.range, round.width);
      std::fill_n(gradients[g].indices.begin(), size, 3 * by);
      std::fill_n(gradients[g].indices.begin() + size, size, 7 * by);
      gradients[g].indices.back() = 5 * by;
    }
    EXPECT_EQ(Sum(round, gradients), Merged(gradients, round.width, round.reduction));
  }

  std::mt19937 random_{seed()};
};

TEST_F(SparseMergeGpuTest, HasTheBitsOfAddingRowAfterRow) {
  for (const auto reduction : {Reduction::kMean, Reduction::kSum, Reduction::kGlobalMean}) {
    for (const size_t width : {1, 3, 4, 64}) {
      Check({5, 40, 50, width, reduction});
      Check({70, 300, 1000, width, reduction});
    }
  }
}

// A row is long from 257 entries on. Tiles have 256 entries, and begin after the first.
TEST_F(SparseMergeGpuTest, LongRowsAreSummedInOrderOfArrival) {
  for (const size_t length : {4, 5, 6, 255, 256, 257, 258, 512, 513, 514, 1500}) {
    CheckLongRows(length, {7, 0, 10, 4, Reduction::kMean});
  }
  for (const size_t width : {1, 3, 8, 16, 20, 64, 66}) {
    CheckLongRows(300, {5, 0, 10, width, Reduction::kMean});
    CheckLongRows(300, {5, 0, 10, width, Reduction::kSum});
  }
  CheckLongRows(900, {5, 0, int64_t{1} << 40, 4, Reduction::kMean, /*knows_range=*/true});
  CheckLongRows(900, {5, 0, int64_t{1} << 40, 4, Reduction::kMean, /*knows_range=*/false});
}

TEST_F(SparseMergeGpuTest, LongRowsThatWereMergedBeforeAreSummedFurther) {
  CheckLongRows(900, {40, 0, 10, 8, Reduction::kMean, true, /*fold_bytes=*/1});
  CheckLongRows(20000, {40, 0, 10, 3, Reduction::kMean, false, /*fold_bytes=*/20000});
}

// These are more rows than a device sums at once.
TEST_F(SparseMergeGpuTest, VeryManyLongRowsAreSummed) {
  std::vector<Slices> gradients(10);
  for (Slices& slices : gradients) slices = RandomSlices(&random_, 30000, 1000, 4);
  const Round round{10, 0, 1000, 4};
  SCOPED_TRACE(seed());
  EXPECT_EQ(Sum(round, gradients), Merged(gradients, 4, round.reduction));
}

TEST_F(SparseMergeGpuTest, PowerLawRowsAreMerged) {
  std::vector<Slices> gradients(10);
  std::uniform_real_distribution<double> exponent(0, 1);
  for (Slices& slices : gradients) {
    slices = RandomSlices(&random_, 3000, 10000, 8);
    for (int64_t& index : slices.indices) {
      index = static_cast<int64_t>(std::pow(10000.0, exponent(random_))) - 1;
    }
  }
  const Round round{10, 0, 10000, 8};
  SCOPED_TRACE(seed());
  EXPECT_EQ(Sum(round, gradients), Merged(gradients, 8, round.reduction));
}

TEST_F(SparseMergeGpuTest, RowsOfAnyNumberAreSortedWhole) {
  Check({5, 400, int64_t{1} << 40, 4, Reduction::kMean, /*knows_range=*/true});
  Check({5, 400, int64_t{1} << 40, 4, Reduction::kMean, /*knows_range=*/false});
}

TEST_F(SparseMergeGpuTest, FoldsChangeNothingAboutTheResult) {
  Check({40, 300, 1000, 8, Reduction::kMean, true, /*fold_bytes=*/1});
  Check({40, 300, 1000, 3, Reduction::kMean, false, /*fold_bytes=*/1});
}

TEST_F(SparseMergeGpuTest, ManyRowsAreMerged) { Check({8, 200000, 300000, 16}); }

TEST_F(SparseMergeGpuTest, ABadRowIsNamed) {
  CudaStream stream;
  CudaWorkspace device(&stream);
  const Buffer indices = stream.CopyOf(std::vector<int64_t>{1, 7, -3});
  const Buffer values = stream.CopyOf(std::vector<float>{1, 2, 3});
  DeviceMergeArgs args;
  args.layout.width = 1;
  args.sources = {{static_cast<const int64_t*>(indices.data()), values.data(), 0, 5}};
  args.num_entries = 3;
  args.num_index_bits = NumIndexBits(5);
  size_t num_bytes = 0;
  ASSERT_TRUE(device.SizeOfMemory(args, &num_bytes).ok());
  Buffer memory;
  ASSERT_TRUE(stream.Allocate(num_bytes, &memory).ok());
  args.memory = memory.data();
  DeviceMergeReport report;
  ASSERT_TRUE(device.Sort(args, &report).ok());
  EXPECT_EQ(report.bad_entry, 1);
}

TEST_F(SparseMergeGpuTest, PinnedMemoryIsReturnedWithoutAllocations) {
  std::optional<Pinned<int>> pinned[100];
  for (auto& each : pinned) {
    each.emplace();
    ASSERT_EQ(each->error(), cudaSuccess);
  }
  const int before = num_allocations;
  for (auto& each : pinned) each.reset();
  EXPECT_EQ(num_allocations, before);
  EXPECT_EQ(Pinned<int>().error(), cudaSuccess);
}

}  // namespace
}  // namespace condacc
