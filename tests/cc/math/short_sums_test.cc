// Tests of sums of a few elements, such as the rows of sparse gradients, and of some more.
#include <sys/mman.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cc/core/base/float16.h"
#include "cc/core/math/dense_math.h"
#include "gtest/gtest.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/math/dense_math_reference.h"

namespace condacc {
namespace {

constexpr size_t kMaxSize = 100;
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
class ShortSumOf : public testing::Test {
 protected:
  using Traits = ElementTraits<T>;
  static constexpr bool kIsNarrow = SumsInFloat32(Traits::kType);
  static constexpr size_t kSumBytes = kIsNarrow ? sizeof(float) : sizeof(T);

  std::vector<T> Random(size_t size) {
    std::vector<T> values(size);
    for (T& value : values) value = Traits::Random(random_);
    return values;
  }

  // Writes a number as type T or, if `is_sum`, as the type of a sum.
  template <typename Sum>
  static void Write(Sum value, size_t i, bool is_sum, void* to) {
    if constexpr (kIsNarrow) {
      if (is_sum) {
        std::memcpy(static_cast<char*>(to) + i * sizeof(value), &value, sizeof(value));
        return;
      }
    }
    const T narrow = Traits::Narrow(value);
    std::memcpy(static_cast<char*>(to) + i * sizeof(T), &narrow, sizeof(T));
  }

  // Compares a sum, bit for bit, with the result of one addition after the other.
  void Check(size_t size, size_t num_inputs, int64_t divisor, bool first_is_sum, bool out_is_sum,
             bool in_place, bool bypasses_cache) {
    SCOPED_TRACE(testing::Message()
                 << "size " << size << ", inputs " << num_inputs << ", divisor " << divisor
                 << ", sums " << first_is_sum << out_is_sum << ", in place " << in_place
                 << ", bypasses the cache " << bypasses_cache);
    const std::vector<T> values = Random(size);
    std::vector<std::vector<T>> more;
    std::vector<const void*> inputs;
    for (size_t k = 0; k < num_inputs; ++k) {
      more.push_back(Random(size));
      inputs.push_back(inputs_[k].Last(size * sizeof(T)));
      if (size > 0)
        std::memcpy(inputs_[k].Last(size * sizeof(T)), more[k].data(), size * sizeof(T));
    }
    void* const first = first_.Last(size * (first_is_sum ? kSumBytes : sizeof(T)));
    const size_t out_bytes = size * (out_is_sum ? kSumBytes : sizeof(T));
    void* const out = in_place ? first : out_.Last(out_bytes);
    std::vector<char> expected(out_bytes + 1);
    for (size_t i = 0; i < size; ++i) {
      auto sum = Traits::Widen(values[i]);
      Write(sum, i, first_is_sum, first);
      for (const auto& input : more) sum = Traits::Plus(sum, Traits::Widen(input[i]));
      Write(divisor > 1 ? Traits::Over(sum, divisor) : sum, i, out_is_sum, expected.data());
    }
    DenseAddArgs args;
    args.type = Traits::kType;
    args.num_elements = size;
    args.out = out;
    args.first = first;
    args.out_is_float32 = kIsNarrow && out_is_sum;
    args.first_is_float32 = kIsNarrow && first_is_sum;
    args.inputs = inputs.data();
    args.num_inputs = num_inputs;
    args.divisor = static_cast<double>(divisor);
    args.bypasses_cache = bypasses_cache;
    DenseAdderOf(args.type)(args, 0, size * NumParts(args.type));
    FlushBypassedStores();
    ASSERT_EQ(std::memcmp(out, expected.data(), out_bytes), 0);
  }

  // The same with and without divisors, sums of float32, results in place and ones past the caches.
  void CheckAll(size_t size, size_t num_inputs) {
    const int64_t divisor = num_inputs % 5 == 3 && !IsInteger(Traits::kType) ? 3 : 1;
    for (bool bypasses_cache : {false, true}) {
      Check(size, num_inputs, divisor, false, false, false, bypasses_cache);
      Check(size, num_inputs, 1, false, true, false, bypasses_cache);
      Check(size, num_inputs, divisor, true, false, false, bypasses_cache);
      Check(size, num_inputs, 1, true, true, true, bypasses_cache);
    }
  }

  std::mt19937 random_{1};
  BeforeGuard first_;
  BeforeGuard out_;
  BeforeGuard inputs_[kMaxInputs];
};

using ShortSumTypes = testing::Types<Float16, BFloat16, float, double, std::complex<float>,
                                     std::complex<double>, int32_t, int64_t>;
TYPED_TEST_SUITE(ShortSumOf, ShortSumTypes);

TYPED_TEST(ShortSumOf, EachSizeMatchesAPlainLoopAndTouchesNoOtherMemory) {
  for (size_t size = 0; size <= kMaxSize; ++size) {
    for (size_t num_inputs : {size_t{0}, size_t{1}, size_t{3}, kMaxInputs}) {
      this->CheckAll(size, num_inputs);
      if (this->HasFatalFailure()) return;
    }
  }
}

// From 1,024 numbers on, up to eight inputs are added at once. The first two sizes leave 3 and 7
// numbers behind the last vector.
TYPED_TEST(ShortSumOf, SizesAroundAPassMatchAPlainLoopAndTouchNoOtherMemory) {
  for (size_t size : {1027, 1031, 2049}) {
    for (size_t num_inputs : {size_t{0}, size_t{8}, size_t{9}, kMaxInputs}) {
      this->CheckAll(size, num_inputs);
      if (this->HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace condacc
