#include "cc/core/dense/dense_math.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "cc/core/base/cpu_features.h"
#include "cc/core/dense/narrow_math.h"
#include "cc/core/dense/pass_table.h"

#if defined(__clang__)
#define CONDACC_NO_ALIASING _Pragma("clang loop vectorize(assume_safety)")
#else
#define CONDACC_NO_ALIASING _Pragma("GCC ivdep")
#endif

namespace condacc {
namespace {

constexpr size_t kParallelChunk = 1 << 16;  // Elements of one unit of parallel work.
constexpr size_t kMinParallel = 1 << 18;    // Fewer elements are added by one thread.

// Adds kInputs inputs in one pass, starting at element `offset` of each. `out` may be one of the
// operands, since each element is read before it is written.
template <typename T, size_t kInputs, bool kDivide>
CONDACC_ALWAYS_INLINE void AddPass(T* out, const T* first, const void* const* inputs, size_t offset,
                                   size_t size, T divisor) {
  const T* in[kInputs + 1];
  for (size_t k = 0; k < kInputs; ++k) in[k] = static_cast<const T*>(inputs[k]) + offset;
  CONDACC_NO_ALIASING
  for (size_t i = 0; i < size; ++i) {
    T sum = first[i];
    for (size_t k = 0; k < kInputs; ++k) sum += in[k][i];
    out[i] = kDivide ? sum / divisor : sum;
  }
}

// The passes for all processors.
template <typename T, bool kDivide>
struct PlainPass {
  template <size_t kInputs>
  static void Run(T* out, const T* first, const void* const* inputs, size_t offset, size_t size,
                  T divisor) {
    AddPass<T, kInputs, kDivide>(out, first, inputs, offset, size, divisor);
  }
};

#if defined(CONDACC_AVX2)

// The passes for processors that have AVX2.
template <typename T, bool kDivide>
struct Avx2Pass {
  template <size_t kInputs>
  static CONDACC_AVX2 void Run(T* out, const T* first, const void* const* inputs, size_t offset,
                               size_t size, T divisor) {
    AddPass<T, kInputs, kDivide>(out, first, inputs, offset, size, divisor);
  }
};

#endif

// Adds a range of elements of a type whose sums are of the same type.
template <template <typename, bool> class Pass, typename T>
void AddRange(const DenseAddArgs& args, size_t begin, size_t end) {
  const auto& last_pass = args.divisor != 1 ? kPasses<Pass<T, true>> : kPasses<Pass<T, false>>;
  for (size_t b = begin; b < end;) {
    // If there are more inputs than one pass reads, several passes go over a chunk, whose running
    // sums stay in the cache. They are not kept in `out`, which may be an input that has yet to be
    // read.
    T sums[kChunkElements];
    const size_t e = args.num_inputs <= kMaxInputs ? end : std::min(end, b + kChunkElements);
    const T* first = static_cast<const T*>(args.first) + b;
    size_t done = 0;
    for (; args.num_inputs - done > kMaxInputs; done += kMaxInputs) {
      kPasses<Pass<T, false>>[kMaxInputs](sums, first, args.inputs + done, b, e - b, 1);
      first = sums;
    }
    last_pass[args.num_inputs - done](static_cast<T*>(args.out) + b, first, args.inputs + done, b,
                                      e - b, static_cast<T>(args.divisor));
    b = e;
  }
}

// Copies a range, which is the sum of a single gradient. Several threads copy a large one faster,
// because the first touch of fresh memory takes most of the time.
void CopyRange(const DenseAddArgs& args, size_t begin, size_t end) {
  if (begin == end) return;  // The pointers may be null then.
  const size_t size = args.out_is_float32 ? sizeof(float) : SizeOf(args.type) / NumParts(args.type);
  std::memmove(static_cast<char*>(args.out) + begin * size,
               static_cast<const char*>(args.first) + begin * size, (end - begin) * size);
}

using RangeFunction = void (*)(const DenseAddArgs&, size_t begin, size_t end);

// Complex numbers are added, and divided by a real number, as pairs of real numbers. Integers are
// added as unsigned integers, for which an overflow is defined to wrap.
RangeFunction FunctionFor(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return AddFloat16;
    case ElementType::kBFloat16:
      return AddBFloat16;
    case ElementType::kFloat32:
    case ElementType::kComplex64:
      return CONDACC_CHOOSE((AddRange<PlainPass, float>), (AddRange<Avx2Pass, float>));
    case ElementType::kFloat64:
    case ElementType::kComplex128:
      return CONDACC_CHOOSE((AddRange<PlainPass, double>), (AddRange<Avx2Pass, double>));
    case ElementType::kInt32:
      return CONDACC_CHOOSE((AddRange<PlainPass, uint32_t>), (AddRange<Avx2Pass, uint32_t>));
    case ElementType::kInt64:
      return CONDACC_CHOOSE((AddRange<PlainPass, uint64_t>), (AddRange<Avx2Pass, uint64_t>));
  }
  return nullptr;
}

RangeFunction FunctionFor(const DenseAddArgs& args) {
  const bool is_copy =
      args.num_inputs == 0 && args.divisor == 1 && args.first_is_float32 == args.out_is_float32;
  return is_copy ? CopyRange : FunctionFor(args.type);
}

}  // namespace

void AddDense(const DenseAddArgs& args) {
  FunctionFor(args)(args, 0, args.num_elements * NumParts(args.type));
}

void AddDense(const DenseAddArgs& args, const ParallelFor& parallel_for) {
  const size_t total = args.num_elements * NumParts(args.type);
  if (total < kMinParallel) {
    AddDense(args);
    return;
  }
  const RangeFunction add = FunctionFor(args);
  parallel_for(total, kParallelChunk,
               [&args, add](size_t begin, size_t end) { add(args, begin, end); });
}

}  // namespace condacc
