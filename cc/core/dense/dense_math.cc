#include "cc/core/dense/dense_math.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/float16.h"
#include "cc/core/dense/narrow_math.h"

#if defined(__clang__)
#define CONDACC_NO_ALIASING _Pragma("clang loop vectorize(assume_safety)")
#else
#define CONDACC_NO_ALIASING _Pragma("GCC ivdep")
#endif

namespace condacc {
namespace {

constexpr size_t kParallelBlock = 1 << 16;  // elements that one thread takes at a time
constexpr size_t kMinParallel = 1 << 18;    // elements below which threads do not pay
constexpr size_t kChunk = 1024;             // elements whose running sums stay in the L1 cache
constexpr int kMaxInputs = 8;               // inputs read in one pass; more streams cost more

// One pass over up to kMaxInputs inputs, whose number is known to the compiler. Aliasing of `out`
// with an operand is harmless, since each element is read before it is written.
template <typename T, int kInputs, bool kDivide>
CONDACC_ALWAYS_INLINE void AddPass(T* out, const T* first, const T* const* inputs, size_t begin,
                                   size_t end, T divisor) {
  const T* in[kInputs + 1];
  for (int k = 0; k < kInputs; ++k) in[k] = inputs[k];
  CONDACC_NO_ALIASING
  for (size_t i = begin; i < end; ++i) {
    T sum = first[i];
    for (int k = 0; k < kInputs; ++k) sum += in[k][i];
    out[i] = kDivide ? sum / divisor : sum;
  }
}

template <typename T, bool kDivide>
CONDACC_ALWAYS_INLINE void AddUpTo8(T* out, const T* first, const T* const* inputs, int num_inputs,
                                    size_t begin, size_t end, T divisor) {
  switch (num_inputs) {
    case 0:
      return AddPass<T, 0, kDivide>(out, first, inputs, begin, end, divisor);
    case 1:
      return AddPass<T, 1, kDivide>(out, first, inputs, begin, end, divisor);
    case 2:
      return AddPass<T, 2, kDivide>(out, first, inputs, begin, end, divisor);
    case 3:
      return AddPass<T, 3, kDivide>(out, first, inputs, begin, end, divisor);
    case 4:
      return AddPass<T, 4, kDivide>(out, first, inputs, begin, end, divisor);
    case 5:
      return AddPass<T, 5, kDivide>(out, first, inputs, begin, end, divisor);
    case 6:
      return AddPass<T, 6, kDivide>(out, first, inputs, begin, end, divisor);
    case 7:
      return AddPass<T, 7, kDivide>(out, first, inputs, begin, end, divisor);
    default:
      return AddPass<T, 8, kDivide>(out, first, inputs, begin, end, divisor);
  }
}

// Sums a range of a type that is added in itself.
template <typename T>
CONDACC_ALWAYS_INLINE void SumRange(const DenseSumArgs& args, size_t begin, size_t end) {
  const T* const* inputs = reinterpret_cast<const T* const*>(args.inputs);
  const int num_inputs = static_cast<int>(args.num_inputs);
  const T divisor = static_cast<T>(args.divisor);
  T* const out = static_cast<T*>(args.out);
  for (size_t b = begin; b < end;) {
    // More inputs than one pass takes: stay within a chunk, whose sums wait in the cache. They
    // may not wait in `out`, which may be an input that is still to be read.
    T sums[kChunk];
    const size_t e = num_inputs <= kMaxInputs ? end : std::min(end, b + kChunk);
    const T* first = static_cast<const T*>(args.first);
    int done = 0;
    for (; num_inputs - done > kMaxInputs; done += kMaxInputs) {
      const T* shifted[kMaxInputs];
      for (int k = 0; k < kMaxInputs; ++k) shifted[k] = inputs[done + k] + b;
      AddPass<T, kMaxInputs, false>(sums, done == 0 ? first + b : sums, shifted, 0, e - b, 1);
    }
    const T* const* rest = inputs + done;
    const T* shifted[kMaxInputs];
    for (int k = 0; k < num_inputs - done; ++k) shifted[k] = rest[k] + b;
    const T* start = done == 0 ? first + b : sums;
    if (args.divisor > 1) {
      AddUpTo8<T, true>(out + b, start, shifted, num_inputs - done, 0, e - b, divisor);
    } else {
      AddUpTo8<T, false>(out + b, start, shifted, num_inputs - done, 0, e - b, divisor);
    }
    b = e;
  }
}

// How many real numbers an element is made of.
size_t NumParts(ElementType type) {
  return type == ElementType::kComplex64 || type == ElementType::kComplex128 ? 2 : 1;
}

// A sum of one gradient. Large ones gain from several threads all the same: what is slow about them
// is the first touch of fresh memory.
void CopyRange(const DenseSumArgs& args, size_t begin, size_t end) {
  if (begin == end) return;  // then there may be no memory either
  const size_t size = args.out_is_float32 ? sizeof(float) : SizeOf(args.type) / NumParts(args.type);
  std::memmove(static_cast<char*>(args.out) + begin * size,
               static_cast<const char*>(args.first) + begin * size, (end - begin) * size);
}

using RangeFunction = void (*)(const DenseSumArgs&, size_t begin, size_t end);

template <typename T>
void Plain(const DenseSumArgs& args, size_t begin, size_t end) {
  SumRange<T>(args, begin, end);
}

#if defined(CONDACC_AVX2)

template <typename T>
CONDACC_AVX2 void Avx2(const DenseSumArgs& args, size_t begin, size_t end) {
  SumRange<T>(args, begin, end);
}

#endif

// Complex numbers add, and divide by a real number, as pairs of their parts. Integers add as
// unsigned ones, for which an overflow is defined to wrap.
RangeFunction FunctionFor(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return SumFloat16;
    case ElementType::kBFloat16:
      return SumBFloat16;
    case ElementType::kFloat32:
    case ElementType::kComplex64:
      return CONDACC_CHOOSE(Plain<float>, Avx2<float>);
    case ElementType::kFloat64:
    case ElementType::kComplex128:
      return CONDACC_CHOOSE(Plain<double>, Avx2<double>);
    case ElementType::kInt32:
      return CONDACC_CHOOSE(Plain<uint32_t>, Avx2<uint32_t>);
    case ElementType::kInt64:
      return CONDACC_CHOOSE(Plain<uint64_t>, Avx2<uint64_t>);
  }
  return nullptr;
}

RangeFunction FunctionFor(const DenseSumArgs& args) {
  const bool is_copy =
      args.num_inputs == 0 && args.divisor <= 1 && args.first_is_float32 == args.out_is_float32;
  return is_copy ? CopyRange : FunctionFor(args.type);
}

}  // namespace

void SumDense(const DenseSumArgs& args) {
  FunctionFor(args)(args, 0, args.num_elements * NumParts(args.type));
}

void SumDense(const DenseSumArgs& args, const ParallelFor& parallel_for) {
  const size_t total = args.num_elements * NumParts(args.type);
  if (total < kMinParallel) {
    SumDense(args);
    return;
  }
  const RangeFunction sum = FunctionFor(args);
  parallel_for(total, kParallelBlock,
               [&args, sum](size_t begin, size_t end) { sum(args, begin, end); });
}

}  // namespace condacc
