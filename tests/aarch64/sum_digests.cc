// Prints a digest of each of 200 dense and 200 sparse sums of random gradients, a line each. Two
// machines print the same lines if their sums have the same bits.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/float16.h"
#include "cc/core/base/invariant.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/math/dense_math.h"
#include "cc/core/sparse/sparse_sum.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {
namespace {

// How many dense sums, and as many sparse ones, there are of each of the 8 types.
constexpr int kNumSumsOfType = 25;

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

// Returns the FNV-1a digest of some bytes, or that of the bytes of another digest and of these.
uint64_t DigestOf(const void* data, size_t num_bytes, uint64_t digest = 0xcbf29ce484222325) {
  for (size_t i = 0; i < num_bytes; ++i) {
    digest = (digest ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  }
  return digest;
}

// Adds some gradients whose elements are, or consist of, values of `T`.
template <typename T>
void PrintDenseSum(const char* name, ElementType type, Draws& draws) {
  const bool is_narrow = SumsInFloat32(type);
  const size_t size = 1 + draws.Below(3000), num_inputs = draws.Below(21);
  const size_t num_parts = size * NumParts(type);
  std::vector<std::vector<T>> gradients(num_inputs + 1, std::vector<T>(num_parts));
  for (auto& gradient : gradients) {
    for (T& value : gradient) value = ValueOf<T>(draws);
  }
  std::vector<const void*> inputs;
  for (size_t k = 1; k <= num_inputs; ++k) inputs.push_back(gradients[k].data());
  DenseAddArgs args;
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
  AddDense(args, SerialFor);
  std::printf("%-10s %4zu elements %2zu inputs / %g%s: %016llx\n", name, size, num_inputs,
              args.divisor, args.out_is_float32 ? " in float32" : "",
              static_cast<unsigned long long>(DigestOf(out.data(), out.size())));
}

// Returns a gradient of up to 100 rows, whose indices may repeat and are in any order.
template <typename T>
Gradient SparseGradient(size_t width, size_t num_parts, Draws& draws) {
  const size_t num_rows = draws.Below(101);
  Gradient gradient;
  gradient.shape = Shape::Of({static_cast<int64_t>(num_rows), static_cast<int64_t>(width)});
  gradient.indices_shape = Shape::Of({static_cast<int64_t>(num_rows)});
  gradient.owned = gradient.owns_indices = true;
  gradient.indices = TestBuffer::Owning(num_rows * sizeof(int64_t));
  gradient.values = TestBuffer::Owning(num_rows * width * num_parts * sizeof(T));
  for (size_t i = 0; i < num_rows; ++i) {
    static_cast<int64_t*>(gradient.indices.data())[i] = draws.Below(300);
  }
  for (size_t i = 0; i < num_rows * width * num_parts; ++i) {
    static_cast<T*>(gradient.values.data())[i] = ValueOf<T>(draws);
  }
  return gradient;
}

// Adds some sparse gradients, which may have weights. Some folds come between them.
template <typename T>
void PrintSparseSum(const char* name, ElementType type, Draws& draws) {
  constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMean, Reduction::kGlobalMean};
  SumOptions options;
  options.type = type;
  options.reduction = kReductions[IsInteger(type) ? 0 : draws.Below(3)];
  const bool has_weights = !IsInteger(type) && draws.Below(2) == 0;
  const size_t width = 1 + draws.Below(40), num_gradients = 1 + draws.Below(12);
  TestWorkspace workspace;
  const std::unique_ptr<RoundSum> sum = NewSparseSum<HostRows>(options);
  for (size_t k = 0; k < num_gradients; ++k) {
    Gradient gradient = SparseGradient<T>(width, NumParts(type), draws);
    if (has_weights) gradient.weight = draws.Below(1000) / 300.0;
    CONDACC_INVARIANT(sum->Check(gradient, /*early=*/nullptr).ok());
    const Status prepared = sum->Supply(Missing::kKeptCopy, workspace, &gradient);
    CONDACC_INVARIANT(prepared.ok());
    sum->Append(std::move(gradient));
    if (draws.Below(4) > 0) continue;
    sum->BeginFold();
    sum->RunFold(workspace);
    const bool has_folded = sum->EndFold();
    CONDACC_INVARIANT(has_folded);
  }
  const Status prepared = sum->PrepareFinish({}, workspace);
  CONDACC_INVARIANT(prepared.ok());
  const Value value = sum->Finish(workspace);
  CONDACC_INVARIANT(value.failure.ok());
  const size_t num_rows = static_cast<size_t>(value.shape.dim(0));
  const uint64_t digest = DigestOf(value.values.data(), num_rows * width * SizeOf(type));
  std::printf("%-10s %4zu rows of %2zu, %2zu gradients%s, %s: %016llx\n", name, num_rows, width,
              num_gradients, has_weights ? " with weights" : "",
              options.reduction == Reduction::kSum    ? "sum"
              : options.reduction == Reduction::kMean ? "mean"
                                                      : "global mean",
              static_cast<unsigned long long>(
                  DigestOf(value.indices.data(), num_rows * sizeof(int64_t), digest)));
}

template <typename T>
void PrintSums(const char* name, ElementType type, Draws& draws) {
  PrintDenseSum<T>(name, type, draws);
  PrintSparseSum<T>(name, type, draws);
}

}  // namespace
}  // namespace condacc

int main() {
  using condacc::ElementType, condacc::PrintSums;
  condacc::Draws draws;
  for (int i = 0; i < condacc::kNumSumsOfType; ++i) {
    PrintSums<condacc::Float16>("float16", ElementType::kFloat16, draws);
    PrintSums<condacc::BFloat16>("bfloat16", ElementType::kBFloat16, draws);
    PrintSums<float>("float32", ElementType::kFloat32, draws);
    PrintSums<double>("float64", ElementType::kFloat64, draws);
    PrintSums<float>("complex64", ElementType::kComplex64, draws);
    PrintSums<double>("complex128", ElementType::kComplex128, draws);
    PrintSums<int32_t>("int32", ElementType::kInt32, draws);
    PrintSums<int64_t>("int64", ElementType::kInt64, draws);
  }
}
