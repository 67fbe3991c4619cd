// Sums of dense gradients, element by element.
#ifndef CONDACC_CORE_MATH_DENSE_MATH_H_
#define CONDACC_CORE_MATH_DENSE_MATH_H_

#include <cstddef>

#include "cc/core/base/element_type.h"
#include "cc/core/base/parallel_for.h"

namespace condacc {

// out[i] = (((first[i] + inputs[0][i]) + inputs[1][i]) + ...) / divisor
//
// The additions of each element happen in exactly this order, however the work is vectorised or
// divided among threads. So the result is bit for bit that of adding one gradient after another.
// `out` may be `first` or any of the inputs whose elements have the same size. For float16 and
// bfloat16, the additions and the division are done in float32 and the result is rounded once;
// `first` and `out` may then also be float32.
struct DenseAddArgs {
  ElementType type = ElementType::kFloat32;
  size_t num_elements = 0;
  void* out = nullptr;
  const void* first = nullptr;
  bool out_is_float32 = false;    // May be true only if SumsInFloat32(type).
  bool first_is_float32 = false;  // Likewise.
  const void* const* inputs = nullptr;
  size_t num_inputs = 0;
  double divisor = 1;  // Must be 1 for integers.
  // Whether `out` is written past the caches where the processor can do that. This is faster if
  // results and operands together do not fit in the caches: a line need not be read before it is
  // written, and pushes out no operand. A thread that has set this must call FlushBypassedStores()
  // before others read `out`.
  bool bypasses_cache = false;
};

// Computes the sum on the calling thread and the threads of `parallel_for`.
void AddDense(const DenseAddArgs& args, const ParallelFor& parallel_for);

// Computes the real numbers [begin, end) of the sum on the calling thread. A complex number is two
// real numbers. Does not read the type and the number of elements.
using DenseAdder = void (*)(const DenseAddArgs& args, size_t begin, size_t end);

// Returns the adder of a type. Many short sums take less time if it is chosen once for all of them.
DenseAdder DenseAdderOf(ElementType type);

// The adders of the two types whose sums are added in float32, which DenseAdderOf() returns.
DenseAdder Float16Adder();
DenseAdder BFloat16Adder();

// Makes what the calling thread has written past the caches visible to other threads.
void FlushBypassedStores();

}  // namespace condacc

#endif  // CONDACC_CORE_MATH_DENSE_MATH_H_
