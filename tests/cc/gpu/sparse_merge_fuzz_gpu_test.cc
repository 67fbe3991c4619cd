// Compares random merges of sparse gradients on a GPU with a map of rows, bit for bit.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <type_traits>
#include <vector>

#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/sparse_merge.h"
#include "gtest/gtest.h"
#include "tests/cc/gpu/gpu_fuzz_support.h"
#include "tests/cc/gpu/gpu_support.h"

namespace condacc {
namespace {

// A random merge of gradients of element type E to values of type Out.
template <typename E, typename Out>
class RandomMerge {
 public:
  explicit RandomMerge(Random* random) : random_(*random) {
    width_ = OneIn(4, random) ? Below(2, random) : 1 + Below(20, random);
    range_ = OneIn(6, random) ? int64_t{1} << (33 + Below(20, random))
                              : static_cast<int64_t>(1 + Below(kRanges[Below(4, random)], random));
    knows_range_ = !OneIn(4, random);
    has_bad_rows_ = knows_range_ && OneIn(8, random);
    is_misaligned_ = OneIn(3, random);
    args_.layout = {E::kType, width_};
    args_.num_index_bits = NumIndexBits(knows_range_ ? range_ : -1);
  }

  // Rows that were merged before are the first source.
  void AddMergedRows() {
    std::set<int64_t> chosen;
    const size_t num_rows = 1 + Below(60, &random_);
    for (size_t i = 0; i < num_rows; ++i) chosen.insert(RandomIndex());
    const std::vector<int64_t> indices(chosen.begin(), chosen.end());
    const auto sums = RandomVector<Sum>(indices.size() * NumColumns(), &random_);
    std::vector<int64_t> counts;
    for (size_t i = 0; i < indices.size(); ++i) {
      counts.push_back(static_cast<int64_t>(1 + Below(9, &random_)));
      const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(i * NumColumns());
      expected_[indices[i]] = {
          {begin, begin + static_cast<std::ptrdiff_t>(NumColumns())}, counts[i], 0};
    }
    args_.sources.push_back({OnDevice(indices), OnDevice(sums), 0, -1});
    args_.merged_counts = OnDevice(counts);
    args_.num_merged = args_.num_entries = static_cast<int64_t>(indices.size());
  }

  void AddGradient(size_t num_rows) {
    std::vector<int64_t> indices(num_rows);
    for (int64_t& index : indices) index = RandomIndex();
    if (has_bad_rows_ && OneIn(3, &random_)) MakeBad(&indices);
    const auto values = RandomVector<Part>(num_rows * NumColumns(), &random_);
    const size_t offset = is_misaligned_ && OneIn(2, &random_) ? 1 : 0;
    args_.sources.push_back({OnDevice(indices), OnDevice(values, offset), args_.num_entries,
                             knows_range_ ? range_ : -1});
    args_.num_entries += static_cast<int64_t>(num_rows);
    const size_t source = args_.sources.size();
    for (size_t i = 0; i < num_rows; ++i) Add(indices[i], &values[i * NumColumns()], source);
  }

  void Check() {
    size_t num_bytes = 0;
    ASSERT_STREQ(SizeOfMergeMemory(args_, &num_bytes).message().c_str(), "");
    const DeviceBuffer<char> memory(num_bytes);
    args_.memory = memory.data();
    DeviceMergeReport report;
    ASSERT_STREQ(SortRows(args_, nullptr, &report).message().c_str(), "");
    ASSERT_EQ(report.bad_entry, bad_entry_);
    if (bad_entry_ < 0) {
      ASSERT_EQ(report.num_rows, static_cast<int64_t>(expected_.size()));
    }
    Write(report);
  }

 private:
  using Part = typename E::Part;
  using Sum = SumOf<Part>;
  struct Row {
    std::vector<Sum> sum;
    int64_t count = 0;
    size_t last_source = 0;
  };

  // If there are few rows, many of them are long.
  static constexpr size_t kRanges[] = {4, 40, 100000, 100000};

  size_t NumColumns() const { return width_ * E::kParts; }
  int64_t RandomIndex() {
    return static_cast<int64_t>(Below(static_cast<size_t>(range_), &random_));
  }

  // Copies values to memory that lives as long as the merge.
  template <typename T>
  const T* OnDevice(const std::vector<T>& values, size_t offset = 0) {
    const auto buffer = std::make_shared<DeviceBuffer<T>>(values, offset);
    buffers_.push_back(buffer);
    return buffer->data();
  }

  // Makes one of the indices negative or too high.
  void MakeBad(std::vector<int64_t>* indices) {
    const size_t at = Below(indices->size(), &random_);
    const auto by = static_cast<int64_t>(Below(5, &random_));
    const int64_t too_high = range_ + by + (OneIn(3, &random_) ? int64_t{1} << 40 : 0);
    (*indices)[at] = OneIn(2, &random_) ? -1 - by : too_high;
    if (bad_entry_ < 0) bad_entry_ = args_.num_entries + static_cast<int64_t>(at);
  }

  void Add(int64_t number, const Part* values, size_t source) {
    const auto [found, is_new] = expected_.try_emplace(number);
    Row& row = found->second;
    for (size_t column = 0; column < NumColumns(); ++column) {
      const auto value = static_cast<Sum>(values[column]);
      if (is_new) {
        row.sum.push_back(value);
      } else {
        row.sum[column] += value;
      }
    }
    if (row.last_source != source) ++row.count;
    row.last_source = source;
  }

  void Write(const DeviceMergeReport& report) {
    const auto num_rows = static_cast<size_t>(report.num_rows);
    const DeviceBuffer<int64_t> indices(num_rows);
    const DeviceBuffer<int64_t> counts(num_rows);
    const DeviceBuffer<Out> values(num_rows * NumColumns(), is_misaligned_ ? 1 : 0);
    DeviceMergeOutput output;
    output.num_rows = report.num_rows;
    output.indices = indices.data();
    output.values = values.data();
    output.values_are_sums =
        !std::is_same_v<Part, Out> || (sizeof(Part) != 2 && OneIn(2, &random_));
    const bool wants_counts = OneIn(2, &random_);
    output.counts = wants_counts ? counts.data() : nullptr;
    output.divisor = std::is_integral_v<Part> ? 1 : static_cast<int64_t>(Below(4, &random_));
    ASSERT_STREQ(QueueWrite(args_, output, nullptr).message().c_str(), "");
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    if (bad_entry_ >= 0) return;  // The output of a bad merge is not used.
    Compare(indices.Read(), wants_counts ? counts.Read() : std::vector<int64_t>(), values.Read(),
            output.divisor);
  }

  void Compare(const std::vector<int64_t>& indices, const std::vector<int64_t>& counts,
               const std::vector<Out>& values, int64_t divisor) {
    size_t i = 0;
    for (const auto& [number, row] : expected_) {
      ASSERT_EQ(indices[i], number);
      if (!counts.empty()) {
        ASSERT_EQ(counts[i], row.count) << "row " << number;
      }
      for (size_t column = 0; column < NumColumns(); ++column) {
        const Out got = values[i * NumColumns() + column];
        const auto expected =
            static_cast<Out>(DividedBy(row.sum[column], divisor == 0 ? row.count : divisor));
        ASSERT_EQ(std::memcmp(&got, &expected, sizeof(Out)), 0)
            << "row " << number << ", column " << column << ": got " << static_cast<double>(got)
            << ", expected " << static_cast<double>(expected);
      }
      ++i;
    }
  }

  Random& random_;
  size_t width_;
  int64_t range_;
  bool knows_range_;
  bool has_bad_rows_;
  bool is_misaligned_;
  DeviceMergeArgs args_;
  std::vector<std::shared_ptr<void>> buffers_;
  std::map<int64_t, Row> expected_;
  int64_t bad_entry_ = -1;
};

class SparseMergeFuzzGpuTest : public GpuTest {
 protected:
  template <typename E, typename Out = typename E::Part>
  void CheckOne() {
    RandomMerge<E, Out> merge(&random_);
    if (OneIn(2, &random_)) merge.AddMergedRows();
    const size_t num_gradients = 1 + Below(OneIn(5, &random_) ? 150 : 12, &random_);
    for (size_t i = 0; i < num_gradients; ++i) {
      merge.AddGradient(1 + Below(OneIn(3, &random_) ? 700 : 30, &random_));
    }
    merge.Check();
  }

  Random random_{seed()};
};

TEST_F(SparseMergeFuzzGpuTest, RandomMergesHaveTheBitsOfAddingRowAfterRow) {
  SCOPED_TRACE(seed());
  for (long long round = 0; round < NumRounds(10) && !HasFatalFailure(); ++round) {
    CheckOne<Float32>();
    CheckOne<Float64>();
    CheckOne<Half>();
    CheckOne<Half, float>();
    CheckOne<Brain>();
    CheckOne<Brain, float>();
    CheckOne<Complex64>();
    CheckOne<Complex128>();
    CheckOne<Int32>();
    CheckOne<Int64>();
  }
}

// CUB sorts this many entries in several passes.
TEST_F(SparseMergeFuzzGpuTest, AMergeOfManyEntriesIsSortedInPasses) {
  SCOPED_TRACE(seed());
  RandomMerge<Float32, float> merge(&random_);
  for (int i = 0; i < 3; ++i) merge.AddGradient(4000 + Below(9000, &random_));
  merge.Check();
}

}  // namespace
}  // namespace condacc
