// Sums of many numbers in passes over memory, each of which reads a few inputs side by side.
#ifndef CONDACC_CORE_MATH_INPUT_PASSES_H_
#define CONDACC_CORE_MATH_INPUT_PASSES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "cc/core/math/dense_math.h"

namespace condacc {

inline constexpr size_t kPassInputs = 8;    // Inputs of one pass. More memory streams are slower.
inline constexpr size_t kPassChunk = 1024;  // Numbers whose running sums stay in the L1 cache.

template <class Pass, size_t... kNumInputs>
constexpr auto MakePasses(std::index_sequence<kNumInputs...>) {
  return std::array{&Pass::template Run<kNumInputs>...};
}

// The functions Pass::Run<n> for all n up to kPassInputs, which add n inputs each. The compiler
// knows n, so no loop over the inputs remains.
template <class Pass>
inline constexpr auto kPasses = MakePasses<Pass>(std::make_index_sequence<kPassInputs + 1>());

// Adds the numbers [begin, end) with the functions of `Pass`, which add whole vectors only: their
// number must be a multiple of that in a vector, as kPassChunk is. If one pass cannot read all
// inputs, several go over a chunk, whose running sums, of type `Sum`, stay in the cache. They are
// not kept in `args.out`, which may be an input that has yet to be read.
template <class Pass, typename Number, typename Sum>
void AddInPasses(const DenseAddArgs& args, size_t begin, size_t end) {
  if (args.num_inputs <= kPassInputs) return kPasses<Pass>[args.num_inputs](args, begin, end);
  constexpr bool kSumsInFloat32 = !std::is_same_v<Number, Sum>;
  Sum sums[kPassChunk];
  const auto behind = [](auto* from, size_t num_elements, bool is_float32) {
    return from + num_elements * (is_float32 ? sizeof(Sum) : sizeof(Number));
  };
  for (size_t b = begin; b < end; b += kPassChunk) {
    DenseAddArgs pass = args;
    pass.first = behind(static_cast<const char*>(args.first), b, args.first_is_float32);
    for (size_t done = 0; done < args.num_inputs; done += pass.num_inputs) {
      const void* inputs[kPassInputs];
      pass.inputs = inputs;
      pass.num_inputs = std::min(kPassInputs, args.num_inputs - done);
      for (size_t k = 0; k < pass.num_inputs; ++k) {
        inputs[k] = static_cast<const Number*>(args.inputs[done + k]) + b;
      }
      const bool is_last = done + pass.num_inputs == args.num_inputs;
      pass.divisor = is_last ? args.divisor : 1;
      pass.out_is_float32 = is_last ? args.out_is_float32 : kSumsInFloat32;
      pass.out = is_last ? behind(static_cast<char*>(args.out), b, args.out_is_float32)
                         : reinterpret_cast<char*>(sums);
      kPasses<Pass>[pass.num_inputs](pass, 0, std::min(kPassChunk, end - b));
      pass.first = sums;
      pass.first_is_float32 = kSumsInFloat32;
    }
  }
}

}  // namespace condacc

#endif  // CONDACC_CORE_MATH_INPUT_PASSES_H_
