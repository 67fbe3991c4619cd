#include "cc/core/math/dense_math.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/base/parallel_for_support.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/math/dense_math_reference.h"

namespace condacc {
namespace {

constexpr size_t kParallelSize = 270001;  // Enough elements for several threads.

template <typename T>
class AddDenseOf : public testing::Test {
 protected:
  using Traits = ElementTraits<T>;
  enum { kOutApart = -2, kOutIsFirst = -1 };  // Otherwise, the number of the input that `out` is.

  AddDenseOf() : pool_(4099) {
    for (T& value : pool_) value = Traits::Random(random_);
  }

  void Generate(size_t size, size_t num_inputs) {
    first_.resize(size);
    inputs_.assign(num_inputs, std::vector<T>(size));
    Fill(&first_);
    for (auto& input : inputs_) Fill(&input);
  }

  void Fill(std::vector<T>* values) {
    size_t next = random_() % pool_.size();
    for (T& value : *values) {
      value = pool_[next];
      next = next + 1 < pool_.size() ? next + 1 : 0;
    }
  }

  std::vector<T> Expected(int64_t divisor) const {
    std::vector<T> expected(first_.size());
    for (size_t i = 0; i < first_.size(); ++i) {
      auto sum = Traits::Widen(first_[i]);
      for (const auto& input : inputs_) sum = Traits::Plus(sum, Traits::Widen(input[i]));
      expected[i] = Traits::Narrow(divisor > 1 ? Traits::Over(sum, divisor) : sum);
    }
    return expected;
  }

  // Compares a sum, bit for bit, with the result of one addition after the other.
  void Check(const std::vector<T>& expected, int64_t divisor, int out_is,
             const ParallelFor& parallel_for) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << seed_ << ", size " << first_.size() << ", inputs " << inputs_.size()
                 << ", divisor " << divisor << ", out " << out_is);
    std::vector<T> first = first_;
    std::vector<std::vector<T>> inputs = inputs_;
    std::vector<T> apart(first_.size());
    std::vector<T>& out = out_is == kOutApart     ? apart
                          : out_is == kOutIsFirst ? first
                                                  : inputs[static_cast<size_t>(out_is)];
    std::vector<const void*> operands;
    for (const auto& input : inputs) operands.push_back(input.data());
    DenseAddArgs args;
    args.type = Traits::kType;
    args.num_elements = first.size();
    args.out = out.data();
    args.first = first.data();
    args.inputs = operands.data();
    args.num_inputs = operands.size();
    args.divisor = divisor;
    AddDense(args, parallel_for);
    ASSERT_TRUE(SameBits(out, expected));
    if (out_is != kOutIsFirst) {
      ASSERT_TRUE(SameBits(first, first_));
    }
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (static_cast<int>(k) == out_is) continue;
      ASSERT_TRUE(SameBits(inputs[k], inputs_[k]));
    }
  }

  static std::vector<int64_t> Divisors() {
    return IsInteger(Traits::kType) ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 3, 21};
  }

  const uint32_t seed_ = TestSeed();
  std::mt19937 random_{seed_};
  std::vector<T> pool_;  // Random values are costly, so the operands repeat these.
  std::vector<T> first_;
  std::vector<std::vector<T>> inputs_;
};

using ElementTypes = testing::Types<Float16, BFloat16, float, double, std::complex<float>,
                                    std::complex<double>, int32_t, int64_t>;
TYPED_TEST_SUITE(AddDenseOf, ElementTypes);

TYPED_TEST(AddDenseOf, SmallSizesMatchAPlainLoopWhereverTheResultGoes) {
  for (size_t size : {0, 1, 7, 8, 33}) {
    for (int num_inputs = 0; num_inputs <= 20; ++num_inputs) {
      this->Generate(size, static_cast<size_t>(num_inputs));
      for (int64_t divisor : this->Divisors()) {
        const auto expected = this->Expected(divisor);
        for (int out_is = this->kOutApart; out_is < num_inputs; ++out_is) {
          this->Check(expected, divisor, out_is, SerialFor);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(AddDenseOf, SizesAroundAChunkMatchAPlainLoop) {
  for (size_t size : {1023, 1024, 1025}) {
    for (int num_inputs = 0; num_inputs <= 20; ++num_inputs) {
      this->Generate(size, static_cast<size_t>(num_inputs));
      const int64_t divisor = this->Divisors().back();
      const auto expected = this->Expected(divisor);
      std::uniform_int_distribution<int> places(0, num_inputs - 1);
      this->Check(this->Expected(1), 1, this->kOutApart, SerialFor);
      this->Check(expected, divisor, this->kOutIsFirst, SerialFor);
      if (num_inputs > 0) this->Check(this->Expected(1), 1, places(this->random_), SerialFor);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(AddDenseOf, ManyChunksMatchAPlainLoop) {
  for (int num_inputs : {0, 1, 8, 9, 17}) {
    this->Generate(70001, static_cast<size_t>(num_inputs));
    const int64_t divisor = this->Divisors().back();
    const auto expected = this->Expected(divisor);
    this->Check(expected, divisor, num_inputs - 1, SerialFor);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(AddDenseOf, ThreadsDoNotChangeTheResult) {
  for (int num_inputs : {0, 9}) {
    this->Generate(kParallelSize, static_cast<size_t>(num_inputs));
    const int64_t divisor = this->Divisors().back();
    const auto expected = this->Expected(divisor);
    this->Check(expected, divisor, this->kOutIsFirst, ThreadedFor);
    this->Check(this->Expected(1), 1, num_inputs / 2 - 1, ThreadedFor);
    if (this->HasFatalFailure()) return;
  }
}

TEST(AddDense, ThreadsAreAskedForBigSumsOnly) {
  std::vector<float> first(kParallelSize), out(kParallelSize);
  DenseAddArgs args;
  args.first = first.data();
  args.out = out.data();
  std::vector<size_t> totals;
  const ParallelFor counting = [&](size_t total, size_t buffer, const auto& body) {
    totals.push_back(total);
    SerialFor(total, buffer, body);
  };
  args.num_elements = 1000;
  AddDense(args, counting);
  EXPECT_TRUE(totals.empty());
  args.num_elements = kParallelSize;
  AddDense(args, counting);
  EXPECT_EQ(totals, std::vector<size_t>{kParallelSize});
}

TEST(AddDense, NanAndInfinityTakeTheirCourse) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t size : {3, 64}) {
    std::vector<float> first(size, infinity), more(size, -infinity), out(size);
    first[1] = nan;
    more[2] = infinity;
    const void* inputs[] = {more.data()};
    DenseAddArgs args;
    args.num_elements = size;
    args.first = first.data();
    args.out = out.data();
    args.inputs = inputs;
    args.num_inputs = 1;
    AddDense(args, SerialFor);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_EQ(out[2], infinity);
  }
}

}  // namespace
}  // namespace condacc
