#include "cc/core/dense/dense_math.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "cc/core/base/cpu_features.h"
#include "cc/core/dense/narrow_math.h"

#if defined(__clang__)
#define CONDACC_NO_ALIASING _Pragma("clang loop vectorize(assume_safety)")
#else
#define CONDACC_NO_ALIASING _Pragma("GCC ivdep")
#endif

namespace condacc {
namespace {

constexpr size_t kParallelChunk = 1 << 16;  // Elements that one thread adds at a time.
constexpr size_t kMinParallel = 1 << 18;    // Fewer elements are added by one thread.
constexpr size_t kChunk = 1024;             // Elements whose running sums stay in the L1 cache.
constexpr int kMaxInputs = 8;               // Inputs of one pass. More memory streams are slower.

// Adds kInputs inputs in one pass. Their number is known to the compiler. `out` may be one of the
// operands, since each element is read before it is written.
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

// Sums a range of elements of a type whose sums are of the same type.
template <typename T>
CONDACC_ALWAYS_INLINE void SumRange(const DenseAddArgs& args, size_t begin, size_t end) {
  const T* const* inputs = reinterpret_cast<const T* const*>(args.inputs);
  const int num_inputs = static_cast<int>(args.num_inputs);
  const T divisor = static_cast<T>(args.divisor);
  T* const out = static_cast<T*>(args.out);
  for (size_t b = begin; b < end;) {
    // If there are more inputs than one pass reads, several passes go over a chunk, whose running
    // sums stay in the cache. They are not kept in `out`, which may be an input that is still to be
    // read.
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

// Returns how many real numbers an element consists of.
size_t NumParts(ElementType type) {
  return type == ElementType::kComplex64 || type == ElementType::kComplex128 ? 2 : 1;
}

// Copies a range: the sum of a single gradient. Large ones are copied faster by several threads,
// because the first touch of fresh memory is what takes long.
void CopyRange(const DenseAddArgs& args, size_t begin, size_t end) {
  if (begin == end) return;  // The pointers may be null then.
  const size_t size = args.out_is_float32 ? sizeof(float) : SizeOf(args.type) / NumParts(args.type);
  std::memmove(static_cast<char*>(args.out) + begin * size,
               static_cast<const char*>(args.first) + begin * size, (end - begin) * size);
}

using RangeFunction = void (*)(const DenseAddArgs&, size_t begin, size_t end);

template <typename T>
void Plain(const DenseAddArgs& args, size_t begin, size_t end) {
  SumRange<T>(args, begin, end);
}

#if defined(CONDACC_AVX2)

template <typename T>
CONDACC_AVX2 void Avx2(const DenseAddArgs& args, size_t begin, size_t end) {
  SumRange<T>(args, begin, end);
}

#endif

// Complex numbers are added, and divided by a real number, as pairs of real numbers. Integers are
// added as unsigned integers, for which an overflow is defined to wrap.
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

RangeFunction FunctionFor(const DenseAddArgs& args) {
  const bool is_copy =
      args.num_inputs == 0 && args.divisor <= 1 && args.first_is_float32 == args.out_is_float32;
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
  const RangeFunction sum = FunctionFor(args);
  parallel_for(total, kParallelChunk,
               [&args, sum](size_t begin, size_t end) { sum(args, begin, end); });
}

}  // namespace condacc
