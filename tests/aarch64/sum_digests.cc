// Prints a digest of each of 200 sums of random gradients, a line each. Two machines print the same
// lines if their sums have the same bits.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "cc/core/base/element_type.h"
#include "cc/core/base/float16.h"
#include "cc/core/math/dense_math.h"

namespace {

using condacc::BFloat16;
using condacc::ElementType;
using condacc::Float16;

constexpr int kNumSums = 200;

// The distributions of the standard library may draw other numbers on other platforms.
class Draws {
 public:
  uint32_t Below(uint32_t limit) { return random_() % limit; }

  // Draws a value between -1 and 1 of a random magnitude, so that additions round.
  float Value() {
    const float mantissa = static_cast<float>(Below(1 << 24)) / (1 << 24);
    const float magnitude = 1.0f / static_cast<float>(1 << Below(20));
    return Below(2) == 0 ? mantissa * magnitude : -mantissa * magnitude;
  }

 private:
  std::mt19937 random_{60};
};

template <typename T>
T ValueOf(Draws& draws) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return T::FromFloat(draws.Value());
  } else if constexpr (std::is_same_v<T, double>) {
    return draws.Value() + draws.Value() / (1 << 30);
  } else if constexpr (std::is_same_v<T, float>) {
    return draws.Value();
  } else {
    return static_cast<T>(static_cast<uint64_t>(draws.Below(~0u)) << 32 | draws.Below(~0u));
  }
}

uint64_t DigestOf(const void* data, size_t num_bytes) {
  uint64_t digest = 0xcbf29ce484222325;  // FNV-1a.
  for (size_t i = 0; i < num_bytes; ++i) {
    digest = (digest ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  }
  return digest;
}

// Adds some gradients whose elements are, or consist of, values of `T`.
template <typename T>
void PrintSum(int number, const char* name, ElementType type, Draws& draws) {
  const bool is_narrow = condacc::SumsInFloat32(type);
  const size_t size = 1 + draws.Below(3000), num_inputs = draws.Below(21);
  const size_t num_parts = size * condacc::NumParts(type);
  std::vector<std::vector<T>> gradients(num_inputs + 1, std::vector<T>(num_parts));
  for (auto& gradient : gradients) {
    for (T& value : gradient) value = ValueOf<T>(draws);
  }
  std::vector<const void*> inputs;
  for (size_t k = 1; k <= num_inputs; ++k) inputs.push_back(gradients[k].data());
  condacc::DenseAddArgs args;
  args.type = type;
  args.num_elements = size;
  args.first = gradients[0].data();
  args.inputs = inputs.data();
  args.num_inputs = num_inputs;
  args.divisor = std::is_integral_v<T> ? 1 : 1 + draws.Below(9);
  args.out_is_float32 = is_narrow && draws.Below(2) == 0;
  const size_t part_bytes = args.out_is_float32 ? sizeof(float) : sizeof(T);
  std::vector<unsigned char> out(num_parts * part_bytes);
  args.out = out.data();
  condacc::AddDense(args);
  std::printf("%3d %-10s %4zu elements %2zu inputs / %g%s: %016llx\n", number, name, size,
              num_inputs, args.divisor, args.out_is_float32 ? " in float32" : "",
              static_cast<unsigned long long>(DigestOf(out.data(), out.size())));
}

}  // namespace

int main() {
  Draws draws;
  for (int i = 0; i < kNumSums; i += 8) {
    PrintSum<Float16>(i, "float16", ElementType::kFloat16, draws);
    PrintSum<BFloat16>(i + 1, "bfloat16", ElementType::kBFloat16, draws);
    PrintSum<float>(i + 2, "float32", ElementType::kFloat32, draws);
    PrintSum<double>(i + 3, "float64", ElementType::kFloat64, draws);
    PrintSum<float>(i + 4, "complex64", ElementType::kComplex64, draws);
    PrintSum<double>(i + 5, "complex128", ElementType::kComplex128, draws);
    PrintSum<int32_t>(i + 6, "int32", ElementType::kInt32, draws);
    PrintSum<int64_t>(i + 7, "int64", ElementType::kInt64, draws);
  }
}
