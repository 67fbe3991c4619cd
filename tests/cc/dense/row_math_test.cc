#include "cc/core/dense/row_math.h"

#include <sys/mman.h>
#include <unistd.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cc/core/base/float16.h"
#include "cc/core/dense/dense_math.h"
#include "gtest/gtest.h"
#include "tests/cc/dense/dense_math_reference.h"

namespace condacc {
namespace {

constexpr size_t kMaxWidth = 100;
constexpr size_t kMaxInputs = 10;

// Memory that ends where a page begins that must not be touched.
class BeforeGuard {
 public:
  BeforeGuard() {
    memory_ = static_cast<char*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + kPage, kPage, PROT_NONE);
  }
  ~BeforeGuard() { munmap(memory_, 2 * kPage); }
  BeforeGuard(const BeforeGuard&) = delete;
  BeforeGuard& operator=(const BeforeGuard&) = delete;

  // Returns the last `num_bytes` bytes.
  void* Last(size_t num_bytes) { return memory_ + kPage - num_bytes; }

 private:
  static constexpr size_t kPage = 1 << 16;  // At least a page of any system.
  char* memory_;
};

template <typename T>
class RowAdderOf : public testing::Test {
 protected:
  using Traits = ElementTraits<T>;
  static constexpr bool kIsNarrow = SumsInFloat32(Traits::kType);
  static constexpr size_t kSumBytes = kIsNarrow ? sizeof(float) : sizeof(T);

  // Fills the operands with numbers of type T, or with float32 if `is_sum`.
  void Fill(void* operand, size_t width, bool is_sum) {
    for (size_t i = 0; i < width; ++i) {
      const T value = Traits::Random(random_);
      if (is_sum && kIsNarrow) {
        const float wide = static_cast<float>(std::real(Traits::Widen(value)));
        std::memcpy(static_cast<char*>(operand) + i * sizeof(float), &wide, sizeof(float));
      } else {
        std::memcpy(static_cast<char*>(operand) + i * sizeof(T), &value, sizeof(T));
      }
    }
  }

  // Compares a row, bit for bit, with the result of AddDense().
  void Check(size_t width, size_t num_inputs, double divisor, bool first_is_sum, bool out_is_sum,
             bool in_place) {
    SCOPED_TRACE(testing::Message()
                 << "width " << width << ", inputs " << num_inputs << ", divisor " << divisor
                 << ", sums " << first_is_sum << out_is_sum << ", in place " << in_place);
    const size_t first_bytes = width * (first_is_sum ? kSumBytes : sizeof(T));
    const size_t out_bytes = width * (out_is_sum ? kSumBytes : sizeof(T));
    void* const first = first_.Last(first_bytes);
    void* const out = in_place ? first : out_.Last(out_bytes);
    Fill(first, width, first_is_sum);
    std::vector<const void*> inputs;
    for (size_t k = 0; k < num_inputs; ++k) {
      void* const input = inputs_[k].Last(width * sizeof(T));
      Fill(input, width, false);
      inputs.push_back(input);
    }
    std::vector<char> expected(out_bytes + 1);
    DenseAddArgs args;
    args.type = Traits::kType;
    args.num_elements = width;
    args.out = expected.data();
    args.first = first;
    args.out_is_float32 = kIsNarrow && out_is_sum;
    args.first_is_float32 = kIsNarrow && first_is_sum;
    args.inputs = inputs.data();
    args.num_inputs = num_inputs;
    args.divisor = divisor;
    AddDense(args);
    const RowAdder adder(Traits::kType, width, args.out_is_float32, /*bypasses_cache=*/true, out);
    adder.Add({out, first, inputs.data(), num_inputs, divisor, args.first_is_float32});
    adder.Finish();
    ASSERT_EQ(std::memcmp(out, expected.data(), out_bytes), 0);
  }

  std::mt19937 random_{1};
  BeforeGuard first_;
  BeforeGuard out_;
  BeforeGuard inputs_[kMaxInputs];
};

using RowTypes = testing::Types<Float16, BFloat16, float, double, std::complex<float>,
                                std::complex<double>, int32_t, int64_t>;
TYPED_TEST_SUITE(RowAdderOf, RowTypes);

TYPED_TEST(RowAdderOf, EqualsAddDenseForEachWidthAndTouchesNoOtherMemory) {
  const bool is_integer = IsInteger(ElementTraits<TypeParam>::kType);
  for (size_t width = 0; width <= kMaxWidth; ++width) {
    for (size_t num_inputs : {size_t{0}, size_t{1}, size_t{3}, kMaxInputs}) {
      const double divisor = num_inputs == 3 && !is_integer ? 3 : 1;
      this->Check(width, num_inputs, divisor, false, false, false);
      this->Check(width, num_inputs, 1, false, true, false);
      this->Check(width, num_inputs, divisor, true, false, false);
      this->Check(width, num_inputs, 1, true, true, true);
    }
  }
}

}  // namespace
}  // namespace condacc
