// Tests sums of more gradients than the workspace can add at once.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/dense/dense_math_reference.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {
namespace {

constexpr size_t kSize = 9;
constexpr size_t kMaxInputs = 8;

// Fails the test if a sum has more inputs than the device of this workspace can add.
class NarrowWorkspace : public TestWorkspace {
 public:
  void Add(const DenseAddArgs& args) override {
    EXPECT_LE(args.num_inputs, kMaxInputs);
    TestWorkspace::Add(args);
  }
};

// A workspace whose first sum waits for the test. Its flags order no other accesses to memory, so
// ThreadSanitizer notices if a later pass reads what the test writes meanwhile.
class PausedWorkspace : public TestWorkspace {
 public:
  void Add(const DenseAddArgs& args) override {
    is_paused_.store(true, std::memory_order_relaxed);
    while (!may_go_on_.load(std::memory_order_relaxed)) std::this_thread::yield();
    TestWorkspace::Add(args);
  }

  void AwaitPause() const {
    while (!is_paused_.load(std::memory_order_relaxed)) std::this_thread::yield();
  }
  void GoOn() { may_go_on_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> is_paused_{false}, may_go_on_{false};
};

template <typename T>
class DenseSumPassesTest : public testing::Test {
 protected:
  using Traits = ElementTraits<T>;

  static void Append(DenseSum* sum, const SumOptions& options, const std::vector<T>& values,
                     Workspace& workspace) {
    Gradient gradient;
    gradient.values = TestBuffer::Owning(kSize * sizeof(T));
    std::memcpy(gradient.values.data(), values.data(), kSize * sizeof(T));
    gradient.shape = Shape::Of({int64_t{kSize}});
    gradient.owned = true;
    while (sum->MissingFrom(gradient) != Missing::kNothing) {
      ASSERT_TRUE(sum->Prepare(sum->MissingFrom(gradient), workspace, &gradient).ok());
    }
    sum->Append(std::move(gradient));
  }

  // Appends gradients, and folds, if that is possible, once `fold_at` are there. Returns the mean,
  // and the number of passes.
  std::pair<std::vector<T>, int> Mean(const std::vector<std::vector<T>>& gradients, size_t fold_at,
                                      size_t max_inputs, TestWorkspace& workspace) {
    HoldBudget budget(size_t{1} << 30);
    SumOptions options;
    options.type = kTypeOf<T>;
    options.budget = &budget;
    options.max_inputs = max_inputs;
    DenseSum sum(options);
    for (size_t i = 0; i < gradients.size(); ++i) {
      Append(&sum, options, gradients[i], workspace);
      if (i + 1 != fold_at || !sum.WantsFold(RoundSum::kUnknown)) continue;
      EXPECT_GT(sum.BeginFold(), 0);
      sum.RunFold(workspace);
      EXPECT_TRUE(sum.EndFold());
    }
    const Value value = sum.Finish(workspace);
    return {ValuesOf(value), workspace.num_sums()};
  }

  static std::vector<T> ValuesOf(const Value& value) {
    std::vector<T> values(kSize);
    std::memcpy(values.data(), value.values.data(), kSize * sizeof(T));
    return values;
  }
};

using Types = testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(DenseSumPassesTest, Types);

TYPED_TEST(DenseSumPassesTest, HaveTheBitsOfOnePass) {
  const uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  for (const size_t count : {9, 10, 16, 17, 18, 40}) {
    for (const size_t fold_at : {count, count - 1, count / 2, size_t{0}}) {
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << ", " << count << " gradients, fold at " << fold_at);
      std::vector<std::vector<TypeParam>> gradients(count, std::vector<TypeParam>(kSize));
      for (auto& gradient : gradients) {
        for (TypeParam& value : gradient) value = ElementTraits<TypeParam>::Random(random);
      }
      NarrowWorkspace narrow;
      TestWorkspace wide;
      const auto got = this->Mean(gradients, fold_at, kMaxInputs, narrow);
      const auto expected = this->Mean(gradients, fold_at, gradients.size(), wide);
      EXPECT_TRUE(SameBits(got.first, expected.first));
      if (fold_at == 0) {
        EXPECT_EQ(expected.second, 1);
        EXPECT_EQ(got.second, static_cast<int>((count - 1 + kMaxInputs - 1) / kMaxInputs));
      }
    }
  }
}

TYPED_TEST(DenseSumPassesTest, GradientsMayBeAppendedBetweenThePassesOfAFold) {
  using Traits = ElementTraits<TypeParam>;
  SumOptions options;
  options.type = kTypeOf<TypeParam>;
  options.max_inputs = kMaxInputs;
  DenseSum sum(options);
  TestWorkspace plain;
  const auto append = [&](int value) {
    const TypeParam element = Traits::Narrow(static_cast<float>(value));
    this->Append(&sum, options, std::vector<TypeParam>(kSize, element), plain);
  };
  constexpr int kFolded = kMaxInputs + 2;  // The first one, and one more than a pass can add.
  for (int value = 1; value <= kFolded; ++value) append(value);
  EXPECT_GT(sum.BeginFold(), static_cast<int64_t>(kMaxInputs));
  PausedWorkspace paused;
  std::thread folder([&] { sum.RunFold(paused); });
  paused.AwaitPause();
  append(kFolded + 1);
  paused.GoOn();
  folder.join();
  EXPECT_EQ(paused.num_sums(), 2);
  EXPECT_TRUE(sum.EndFold());
  const TypeParam mean = Traits::Narrow(static_cast<float>(kFolded + 2) / 2);
  EXPECT_TRUE(SameBits(this->ValuesOf(sum.Finish(plain)), std::vector<TypeParam>(kSize, mean)));
}

}  // namespace
}  // namespace condacc
