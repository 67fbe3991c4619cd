// A sparse accumulator whose device is the CPU.
#ifndef CONDACC_TESTS_SPARSE_DEVICE_ROWS_FIXTURE_H_
#define CONDACC_TESTS_SPARSE_DEVICE_ROWS_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/base/hold_budget.h"
#include "gtest/gtest.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/sparse/cpu_device.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {

inline constexpr int64_t kRange = 50;

inline Accumulator::Options DeviceOptions(HoldBudget* budget, size_t fold_bytes) {
  Accumulator::Options options;
  options.new_sum = NewSparseSum<DeviceRows>;
  options.sum.budget = budget;
  options.sum.fold_bytes = fold_bytes;
  return options;
}

class DeviceRowsTest : public testing::Test {
 protected:
  void Make(Accumulator::Options options) { accumulator_ = std::make_unique<Accumulator>(options); }
  Accumulator::Options Options(size_t fold_bytes = size_t{1} << 30) {
    return DeviceOptions(&budget_, fold_bytes);
  }

  Status Apply(Gradient gradient) {
    return accumulator_->Apply(accumulator_->global_step(), std::move(gradient), device_).status();
  }
  // Applies a gradient of rows of width 1.
  void ApplyRows(const std::vector<int64_t>& indices, const std::vector<float>& values) {
    const Status status = Apply(GradientOf({indices, values}, 1, /*owned=*/true));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void ApplyAll(const std::vector<Slices>& gradients, size_t width) {
    for (const Slices& slices : gradients) {
      const Status status = Apply(GradientOf(slices, width, /*owned=*/random_() % 2 == 0));
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
  void Request(DeviceTake& take) {
    accumulator_->Request(take.ptr(), nullptr, device_);
    ASSERT_EQ(take.num_completions(), 1);
  }
  Slices Take(size_t num_required) {
    DeviceTake take(static_cast<int64_t>(num_required));
    Request(take);
    EXPECT_TRUE(take.status().ok()) << take.status().message();
    return take.status().ok() ? take.slices() : Slices();
  }
  std::vector<Slices> Gradients(size_t count, size_t width) {
    std::vector<Slices> gradients;
    for (size_t i = 0; i < count; ++i) {
      gradients.push_back(RandomSlices(&random_, random_() % 30, kRange, width));
    }
    return gradients;
  }

  const unsigned seed_ = TestSeed();
  std::mt19937 random_{seed_};
  HoldBudget budget_{1 << 20};
  CpuDevice device_;
  std::unique_ptr<Accumulator> accumulator_;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_SPARSE_DEVICE_ROWS_FIXTURE_H_
