// Draws random values of every element type, for fuzz tests of the CUDA launchers.
#ifndef CONDACC_TESTS_GPU_GPU_FUZZ_SUPPORT_H_
#define CONDACC_TESTS_GPU_GPU_FUZZ_SUPPORT_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "cc/core/base/element_type.h"
#include "tests/cc/gpu/gpu_support.h"

namespace condacc {

using Random = std::mt19937_64;

// Returns a number from 0 to `end` - 1.
inline size_t Below(size_t end, Random* random) { return (*random)() % end; }
inline bool OneIn(size_t n, Random* random) { return Below(n, random) == 0; }

// Returns any integer, or a normally distributed number; a few of the latter are denormal.
template <typename T>
T RandomValue(Random* random) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>((*random)());
  } else {
    const float value = std::normal_distribution<float>()(*random);
    return static_cast<T>(OneIn(64, random) ? value * 1e-41f : value);
  }
}

template <typename T>
std::vector<T> RandomVector(size_t size, Random* random) {
  std::vector<T> values(size);
  for (T& value : values) value = RandomValue<T>(random);
  return values;
}

// Divides a sum as an accumulator does. Integers are not divided.
template <typename T>
T DividedBy(T sum, int64_t divisor) {
  if constexpr (std::is_integral_v<T>) {
    return sum;
  } else {
    return sum / static_cast<T>(divisor);
  }
}

// An element type, the type of its parts, and how many of these it has. Integers are unsigned,
// because their sums wrap around.
template <ElementType kElementType, typename T, size_t kNumParts = 1>
struct Element {
  static constexpr ElementType kType = kElementType;
  static constexpr size_t kParts = kNumParts;
  using Part = T;
};

using Float32 = Element<ElementType::kFloat32, float>;
using Float64 = Element<ElementType::kFloat64, double>;
using Half = Element<ElementType::kFloat16, __half>;
using Brain = Element<ElementType::kBFloat16, __nv_bfloat16>;
using Complex64 = Element<ElementType::kComplex64, float, 2>;
using Complex128 = Element<ElementType::kComplex128, double, 2>;
using Int32 = Element<ElementType::kInt32, uint32_t>;
using Int64 = Element<ElementType::kInt64, uint64_t>;

}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_GPU_FUZZ_SUPPORT_H_
