// Tests of saving and restoring dense accumulators.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/accumulator/saved_state.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/saved_bytes.h"
#include "tests/cc/dense/dense_support.h"
#include "tests/cc/dense/stopping_workspace.h"

namespace condacc {
namespace {

// Returns a gradient such that the order of additions changes the bits of a sum.
template <typename T>
std::vector<T> StateGradient(int number) {
  std::vector<T> values(37);
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = 1.0f / static_cast<float>(3 + 7 * number + static_cast<int>(i));
    if constexpr (SumsInFloat32(kTypeOf<T>)) {
      values[i] = T::FromFloat(value);
    } else if constexpr (IsInteger(kTypeOf<T>)) {
      values[i] = static_cast<T>(1000 * value);
    } else {
      values[i] = T(value);
    }
  }
  return values;
}

template <typename T>
class SavedDense : public testing::Test {
 protected:
  static constexpr bool kIsMean = !IsInteger(kTypeOf<T>);

  static void ApplyTo(Accumulator& accumulator, int number, Workspace& workspace) {
    std::vector<T> values = StateGradient<T>(number);
    Gradient gradient = number % 3 == 0 ? Borrowed(&values) : Owned(values);
    const ApplyResult result =
        number % 2 == 0 ? accumulator.Apply(4, By(number, std::move(gradient)), workspace)
                        : accumulator.Apply(4, std::move(gradient), workspace);
    EXPECT_TRUE(result.is_added()) << result.status().message();
  }
  std::vector<T> Taken(Accumulator& accumulator, int num_required) {
    DenseTake take(num_required);
    accumulator.Request(take.ptr(), nullptr, workspace_);
    EXPECT_TRUE(take.is_served()) << take.status().message();
    return take.values<T>();
  }
  static bool HaveSameBits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
  }

  TestWorkspace workspace_;
};

using AllTypes = testing::Types<Float16, BFloat16, float, double, std::complex<float>,
                                std::complex<double>, int32_t, int64_t>;
TYPED_TEST_SUITE(SavedDense, AllTypes);

TYPED_TEST(SavedDense, ContinuesWithTheSameBitsFromEveryPointOfARound) {
  constexpr int kNumGradients = 20;
  for (int saved_after = 0; saved_after <= kNumGradients; ++saved_after) {
    Accumulator undisturbed(OptionsOf<TypeParam>(this->kIsMean));
    Accumulator saved(OptionsOf<TypeParam>(this->kIsMean));
    Accumulator restored(OptionsOf<TypeParam>(this->kIsMean));
    undisturbed.SetGlobalStep(4);
    saved.SetGlobalStep(4);
    for (int i = 0; i < kNumGradients; ++i) this->ApplyTo(undisturbed, i, this->workspace_);
    for (int i = 0; i < saved_after; ++i) this->ApplyTo(saved, i, this->workspace_);
    const std::string bytes = SavedBytes(saved, this->workspace_);
    ASSERT_TRUE(RestoreBytes(bytes, restored, this->workspace_).ok());
    EXPECT_EQ(restored.num_accumulated(), saved_after);
    EXPECT_EQ(restored.global_step(), 4);
    EXPECT_EQ(SavedBytes(restored, this->workspace_), bytes);
    for (int i = saved_after; i < kNumGradients; ++i) {
      this->ApplyTo(saved, i, this->workspace_);
      this->ApplyTo(restored, i, this->workspace_);
    }
    const auto expected = this->Taken(undisturbed, kNumGradients);
    EXPECT_TRUE(this->HaveSameBits(this->Taken(restored, kNumGradients), expected));
    EXPECT_TRUE(this->HaveSameBits(this->Taken(saved, kNumGradients), expected));
    EXPECT_EQ(restored.global_step(), 5);
  }
}

class DenseState : public testing::Test {
 protected:
  static Accumulator::Options Options() {
    Accumulator::Options options = OptionsOf<float>(/*mean=*/true);
    options.sum.shape = Shape::Of({2});
    return options;
  }
  static void Add(Accumulator& accumulator, float value, TestWorkspace& workspace) {
    const int64_t step = accumulator.global_step();
    EXPECT_TRUE(
        accumulator.Apply(step, Owned(std::vector<float>{value, value}), workspace).is_added());
  }
  float Take(Accumulator& accumulator, int num_required = 1) {
    DenseTake take(num_required);
    accumulator.Request(take.ptr(), nullptr, workspace_);
    EXPECT_TRUE(take.is_served()) << take.status().message();
    return take.values<float>()[0];
  }
  // Returns a state with two contributors, and a weight.
  std::string State() {
    Accumulator accumulator(Options());
    EXPECT_EQ(accumulator.SetGlobalStep(6), 0);
    for (const int contributor : {5, 3}) {
      const ApplyResult result =
          accumulator.Apply(6, By(contributor, Owned(std::vector<float>{1, 2})), workspace_);
      EXPECT_TRUE(result.is_added());
    }
    EXPECT_TRUE(accumulator.Apply(2, Owned(std::vector<float>{1, 2}), workspace_).ok());
    Gradient weighted = Owned(std::vector<float>{3, 4});
    weighted.weight = 0.5;
    EXPECT_TRUE(accumulator.Apply(6, std::move(weighted), workspace_).is_added());
    return SavedBytes(accumulator, workspace_);
  }

  TestWorkspace workspace_;
};

TEST_F(DenseState, DoesNotDependOnWhatWasFolded) {
  Accumulator::Options eager = Options();
  eager.sum.small_bytes = 1 << 20;
  Accumulator folding(eager);
  Accumulator holding(Options());
  for (int i = 0; i < 5; ++i) {
    Add(folding, 0.1f * static_cast<float>(i), workspace_);
    Add(holding, 0.1f * static_cast<float>(i), workspace_);
  }
  EXPECT_EQ(SavedBytes(folding, workspace_), SavedBytes(holding, workspace_));
}

TEST_F(DenseState, OfAnotherAccumulatorIsRefusedWithBothNamed) {
  const std::string bytes = State();
  const auto message_of = [&](Accumulator::Options options) {
    Accumulator accumulator(std::move(options));
    const Status status = RestoreBytes(bytes, accumulator, workspace_);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(accumulator.global_step(), 0);
    return status.message();
  };
  Accumulator::Options options = Options();
  options.sum.reduction = Reduction::kSum;
  EXPECT_EQ(message_of(options),
            "The saved state is that of another accumulator: expected a dense accumulator of dtype "
            "float32, shape [2] and reduction_type SUM, got a dense accumulator of dtype float32, "
            "shape [2] and reduction_type MEAN");
  options = Options();
  options.sum.shape = Shape::Of({3});
  EXPECT_NE(message_of(options).find("shape [3]"), std::string::npos);
  options = Options();
  options.sum.type = ElementType::kFloat64;
  EXPECT_NE(message_of(options).find("dtype float64"), std::string::npos);
}

// Replaces the bytes at an offset, and expects an error that contains some words.
void ExpectRefused(std::string bytes, size_t offset, uint64_t value, const std::string& words) {
  TestWorkspace workspace;
  Accumulator::Options options = OptionsOf<float>(/*mean=*/true);
  options.sum.shape = Shape::Of({2});
  Accumulator accumulator(options);
  ASSERT_LE(offset + sizeof(value), bytes.size());
  std::memcpy(&bytes[offset], &value, sizeof(value));
  const Status status = RestoreBytes(bytes, accumulator, workspace);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  EXPECT_EQ(accumulator.num_accumulated(), 0);
}

uint64_t BitsOfDouble(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

TEST_F(DenseState, ThatIsHostileIsRefused) {
  const std::string bytes = State();
  constexpr size_t kDescriptionAt = 128;
  constexpr size_t kDimsAt = kDescriptionAt + 128;
  constexpr size_t kContributorsAt = kDimsAt + 64;
  const auto minus_one = static_cast<uint64_t>(-1);
  ExpectRefused(bytes, offsetof(StateHeader, magic), 0,
                "Expected the saved state of an accumulator");
  ExpectRefused(bytes, offsetof(StateHeader, version), 1, "another version: expected 3, got 1");
  const size_t rank = offsetof(StateHeader, value_rank);
  ExpectRefused(bytes, rank, minus_one - 1, "bad rank");
  ExpectRefused(bytes, rank, 255, "bad rank");
  ExpectRefused(bytes, rank, 100, "cut off");
  ExpectRefused(bytes, rank, std::numeric_limits<int64_t>::max(), "bad rank");
  ExpectRefused(bytes, offsetof(StateHeader, version), 3 + (uint64_t{1} << 50), "cut off");
  ExpectRefused(bytes, offsetof(StateHeader, version), 3 + (uint64_t{7} << 32),
                "MEAN, got a dense");
  ExpectRefused(bytes, kDescriptionAt, 0, "does not say what accumulator");
  ExpectRefused(bytes, kDescriptionAt, 0x6161616161616161, "got aaaaaaaaaccumulator of dtype");
  ExpectRefused(bytes, offsetof(StateHeader, value_rank), minus_one, "values of shape <unknown>");
  ExpectRefused(bytes, offsetof(StateHeader, num_bytes), minus_one, "bytes");
  ExpectRefused(bytes, offsetof(StateHeader, num_dropped), minus_one, "dropped gradients, got -1");
  for (const auto& [offset, what] : {std::pair(offsetof(StateHeader, num_gradients), "accumulated"),
                                     std::pair(offsetof(StateHeader, num_early), "early")}) {
    const std::string words = "expected a number of " + std::string(what) + " gradients, got ";
    ExpectRefused(bytes, offset, minus_one, words + "-1");
    ExpectRefused(bytes, offset, (uint64_t{1} << 53) + 1, words + "9007199254740993");
  }
  ExpectRefused(bytes, offsetof(StateHeader, num_gradients), 0, "a weight of gradients");
  ExpectRefused(bytes, offsetof(StateHeader, num_gradients), 1, "do not fit");
  const size_t weight = offsetof(StateHeader, total_weight);
  ExpectRefused(bytes, weight, BitsOfDouble(std::nan("")), "a weight of gradients");
  ExpectRefused(bytes, weight, BitsOfDouble(-1), "a weight of gradients");
  ExpectRefused(bytes, weight, BitsOfDouble(-0.0), "a weight of gradients");
  ExpectRefused(bytes, offsetof(StateHeader, num_come), uint64_t{1} << 61, "contributors");
  ExpectRefused(bytes, offsetof(StateHeader, num_come), 4, "contributors, gradients");
  ExpectRefused(bytes, offsetof(StateHeader, num_come), 9, "do not fit its size");
  ExpectRefused(bytes, offsetof(StateHeader, num_come), 1, "not 0");
  ExpectRefused(bytes, offsetof(StateHeader, num_early), 1, "do not fit");
  ExpectRefused(bytes, offsetof(StateHeader, num_early_rows), 1, "values of shape [2]");
  ExpectRefused(bytes, sizeof(StateHeader), 1, "not 0");
  ExpectRefused(bytes, kDimsAt, uint64_t{1} << 61, "values of shape");
  ExpectRefused(bytes, kDimsAt, minus_one, "values of shape [?]");
  ExpectRefused(bytes, kDimsAt, 100, "do not fit its size");
  ExpectRefused(bytes, kDimsAt, 1, "not 0");
  ExpectRefused(bytes, kDimsAt + 8, 1, "not 0");
  ExpectRefused(bytes, kContributorsAt, minus_one, "contributor -1 out of order");
  ExpectRefused(bytes, kContributorsAt, 5, "contributor 5 out of order");
  ExpectRefused(bytes, kContributorsAt, 6, "contributor 5 out of order");
  ExpectRefused(bytes, bytes.size() - 8, 1, "not 0");
}

TEST_F(DenseState, OfValuesWithAnUnknownDimensionIsRefusedAlsoIfThereAreNone) {
  Accumulator accumulator(OptionsOf<float>(/*mean=*/true));
  Gradient empty = Owned(std::vector<float>());
  empty.shape = Shape::Of({0, 2});
  ASSERT_TRUE(accumulator.Apply(0, std::move(empty), workspace_).is_added());
  std::string bytes = SavedBytes(accumulator, workspace_);
  constexpr size_t kSecondDimAt = 256 + 8;  // Of the values.
  const int64_t second_dim = 2, unknown = -1;
  ASSERT_EQ(std::memcmp(&bytes[kSecondDimAt], &second_dim, sizeof(second_dim)), 0);
  std::memcpy(&bytes[kSecondDimAt], &unknown, sizeof(unknown));
  const Status status = RestoreBytes(bytes, accumulator, workspace_);
  EXPECT_NE(status.message().find("values of shape [0,?]"), std::string::npos) << status.message();
}

TEST_F(DenseState, OfManyGradientsNeedsNoMemoryForEach) {
  Accumulator one(Options());
  Add(one, 8, workspace_);
  std::string bytes = SavedBytes(one, workspace_);
  constexpr size_t kCount = offsetof(StateHeader, num_gradients);  // The total weight follows.
  const int64_t count = int64_t{1} << 53;
  const auto total_weight = static_cast<double>(count);
  std::memcpy(&bytes[kCount], &count, sizeof(count));
  std::memcpy(&bytes[kCount + sizeof(count)], &total_weight, sizeof(total_weight));
  Accumulator accumulator(Options());
  ASSERT_TRUE(RestoreBytes(bytes, accumulator, workspace_).ok());
  EXPECT_EQ(accumulator.num_accumulated(), count);
  EXPECT_EQ(SavedBytes(accumulator, workspace_), bytes);
}

TEST_F(DenseState, IsNotSavedWithoutMemory) {
  Accumulator accumulator(Options());
  Add(accumulator, 8, workspace_);
  const Status status = accumulator.Save(workspace_, [](size_t, char**) {
    return Status(StatusCode::kResourceExhausted, "The test refuses memory");
  });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "The test refuses memory");
  EXPECT_EQ(Take(accumulator), 8.0f);
}

TEST_F(DenseState, OfGradientsOnADeviceIsThatOfTheHost) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16}) {
    Accumulator::Options options = Options();
    options.sum.type = type;
    Accumulator host(options);
    options.sum.is_in_host_memory = false;
    Accumulator device(options);
    for (float value : {1, 2, 3}) {
      Add(host, value, workspace_);
      Add(device, value, workspace_);
    }
    const std::string bytes = SavedBytes(host, workspace_);
    EXPECT_EQ(SavedBytes(device, workspace_), bytes);
    Add(device, 4, workspace_);
    EXPECT_TRUE(RestoreBytes(bytes, device, workspace_).ok());
    EXPECT_EQ(SavedBytes(device, workspace_), bytes);
    workspace_.RefuseAllocation(0);
    alignas(64) char state[1024];
    const auto allocate = [&](size_t num_bytes, char** memory) {
      EXPECT_LE(num_bytes, sizeof(state));
      *memory = state;
      return Status();
    };
    EXPECT_EQ(device.Save(workspace_, allocate).code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(device.num_accumulated(), 3);
  }
}

TEST_F(DenseState, BorrowedGradientsAreAppliedWithoutAWaitDuringASave) {
  Accumulator accumulator(Options());
  Add(accumulator, 1, workspace_);
  Add(accumulator, 2, workspace_);
  StopPoint stop;
  auto saving = std::async(std::launch::async, [&] {
    StoppingWorkspace stopping(&stop);
    return SavedBytes(accumulator, stopping);
  });
  stop.AwaitArrivals(1);
  std::vector<float> values{4, 4};
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(accumulator.Apply(0, Borrowed(&values), workspace_).is_added());
  }
  values = {100, 100};
  stop.Open();
  Accumulator restored(Options());
  EXPECT_TRUE(RestoreBytes(saving.get(), restored, workspace_).ok());
  EXPECT_EQ(Take(restored, 2), 1.5f);
  EXPECT_EQ(Take(accumulator, 12), 43.0f / 12);
  Add(accumulator, 1, workspace_);
  const int before = workspace_.num_allocations();
  EXPECT_TRUE(accumulator.Apply(1, Borrowed(&values), workspace_).is_added());
  EXPECT_EQ(workspace_.num_allocations(), before) << "nothing is copied after the save";
}

}  // namespace
}  // namespace condacc
