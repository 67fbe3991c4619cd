// Compares random sums of dense gradients on a GPU with additions one after another, bit for bit.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "cc/core/math/dense_math.h"
#include "cc/gpu/dense_launch.h"
#include "cc/gpu/dense_pass.h"
#include "gtest/gtest.h"
#include "tests/cc/gpu/gpu_fuzz_support.h"
#include "tests/cc/gpu/gpu_support.h"

namespace condacc {
namespace {

class DenseLaunchFuzzGpuTest : public GpuTest {
 protected:
  // The number of elements by which a buffer is out of alignment.
  size_t Offset(bool misaligned) {
    return misaligned && OneIn(4, &random_) ? 1 + Below(7, &random_) : 0;
  }

  template <typename E, typename First, typename Out>
  void Check() {
    using T = typename E::Part;
    const size_t num_elements = OneIn(5, &random_) ? Below(4, &random_) : Below(3000, &random_);
    const size_t size = num_elements * E::kParts;
    const size_t num_inputs =
        OneIn(6, &random_) ? Below(kMaxDenseInputs + 1, &random_) : Below(20, &random_);
    const bool misaligned = OneIn(3, &random_);
    const auto first = RandomVector<First>(size, &random_);
    std::vector<std::vector<T>> inputs;
    std::vector<DeviceBuffer<T>> device_inputs;
    std::vector<const void*> addresses;
    for (size_t k = 0; k < num_inputs; ++k) {
      inputs.push_back(RandomVector<T>(size, &random_));
      device_inputs.emplace_back(inputs.back(), Offset(misaligned));
      addresses.push_back(device_inputs.back().data());
    }
    const DeviceBuffer<First> device_first(first, Offset(misaligned));
    const DeviceBuffer<Out> out(size, Offset(misaligned));
    const bool in_place = std::is_same_v<First, Out> && OneIn(2, &random_);
    DenseAddArgs args;
    args.type = E::kType;
    args.num_elements = num_elements;
    args.first = device_first.data();
    args.first_is_float32 = sizeof(T) == 2 && sizeof(First) == 4;
    args.inputs = addresses.data();
    args.num_inputs = num_inputs;
    args.divisor = std::is_integral_v<T> ? 1 : 1 + static_cast<int64_t>(Below(9, &random_));
    args.out = in_place ? static_cast<void*>(device_first.data()) : out.data();
    args.out_is_float32 = sizeof(T) == 2 && sizeof(Out) == 4;
    ASSERT_STREQ(QueueDenseAdd(args, nullptr).message().c_str(), "");
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<Out> got;
    if constexpr (std::is_same_v<First, Out>) {
      got = in_place ? device_first.Read() : out.Read();
    } else {
      got = out.Read();
    }
    Compare(first, inputs, args.divisor, got);
  }

  template <typename First, typename T, typename Out>
  void Compare(const std::vector<First>& first, const std::vector<std::vector<T>>& inputs,
               int64_t divisor, const std::vector<Out>& got) {
    for (size_t i = 0; i < first.size(); ++i) {
      auto sum = static_cast<SumOf<T>>(first[i]);
      for (const std::vector<T>& input : inputs) sum += static_cast<SumOf<T>>(input[i]);
      const auto expected = static_cast<Out>(DividedBy(sum, divisor));
      ASSERT_EQ(std::memcmp(&got[i], &expected, sizeof(Out)), 0)
          << "element " << i << " of " << first.size() << ", inputs " << inputs.size() << ": got "
          << static_cast<double>(got[i]) << ", expected " << static_cast<double>(expected);
    }
  }

  // Running sums and results of narrow types may be float32.
  template <typename E>
  void CheckNarrow() {
    using T = typename E::Part;
    Check<E, T, T>();
    Check<E, float, T>();
    Check<E, T, float>();
    Check<E, float, float>();
  }

  template <typename E>
  void CheckSame() {
    Check<E, typename E::Part, typename E::Part>();
  }

 private:
  Random random_{seed()};
};

TEST_F(DenseLaunchFuzzGpuTest, RandomSumsHaveTheBitsOfAddingInOrder) {
  SCOPED_TRACE(seed());
  for (long long round = 0; round < NumRounds(10) && !HasFatalFailure(); ++round) {
    CheckSame<Float32>();
    CheckSame<Float64>();
    CheckSame<Complex64>();
    CheckSame<Complex128>();
    CheckSame<Int32>();
    CheckSame<Int64>();
    CheckNarrow<Half>();
    CheckNarrow<Brain>();
  }
}

}  // namespace
}  // namespace condacc
