// A table of the passes over memory that add a certain number of inputs at once.
#ifndef CONDACC_CORE_MATH_PASS_TABLE_H_
#define CONDACC_CORE_MATH_PASS_TABLE_H_

#include <array>
#include <cstddef>
#include <utility>

namespace condacc {

inline constexpr size_t kMaxInputs = 8;  // Inputs of one pass. More memory streams are slower.
inline constexpr size_t kChunkElements = 1024;  // Elements whose running sums stay in the L1 cache.

template <class Pass, size_t... kNumInputs>
constexpr auto MakePasses(std::index_sequence<kNumInputs...>) {
  return std::array{&Pass::template Run<kNumInputs>...};
}

// The functions Pass::Run<n> for all n up to kMaxInputs, which add n inputs each. The compiler
// knows n, so it unrolls the loop over the inputs.
template <class Pass>
inline constexpr auto kPasses = MakePasses<Pass>(std::make_index_sequence<kMaxInputs + 1>());

}  // namespace condacc

#endif  // CONDACC_CORE_MATH_PASS_TABLE_H_
