#include "cc/core/math/dense_math.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "cc/core/base/cpu_features.h"
#include "cc/core/math/input_passes.h"

#if defined(CONDACC_AVX2)
#include <immintrin.h>
#endif

namespace condacc {
namespace {

constexpr size_t kParallelChunk = 1 << 16;  // Elements of one unit of parallel work.
constexpr size_t kMinParallel = 1 << 18;    // Fewer elements are added by one thread.
constexpr size_t kMinSideBySide = 1 << 10;  // Fewer elements are added in blocks.

// kBytes bytes of numbers of type T, in memory of any alignment. This is a trait and not
// std::conditional, because a vector type loses its attributes as a template argument.
template <typename T, size_t kBytes, bool kIsOneNumber = kBytes == sizeof(T)>
struct PieceOf {
  typedef T Type __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};
template <typename T, size_t kBytes>
struct PieceOf<T, kBytes, true> {
  using Type = T;
};

// Copies a vector to an aligned address, past the caches if the processor can do that.
template <size_t kVectorBytes>
inline void CopyPastCaches(const void* from, void* to) {
  std::memcpy(to, from, kVectorBytes);
}

#if defined(CONDACC_AVX2)
template <>
CONDACC_AVX2 inline void CopyPastCaches<32>(const void* from, void* to) {
  const __m256i vector = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  _mm256_stream_si256(static_cast<__m256i*>(to), vector);
}
#endif

// Adds the pieces with the numbers p of each operand, counted from element `i` on. No loop over
// them has to be unrolled, so the sums are in registers at every level of optimization.
template <typename T, size_t kBytes, bool kBypassesCache, size_t... p>
CONDACC_ALWAYS_INLINE void AddPieces(const DenseAddArgs& args, size_t i,
                                     std::index_sequence<p...>) {
  using Piece = typename PieceOf<T, kBytes>::Type;
  const auto* const first = reinterpret_cast<const Piece*>(static_cast<const T*>(args.first) + i);
  Piece sums[] = {first[p]...};
  for (size_t k = 0; k < args.num_inputs; ++k) {
    const auto* in = reinterpret_cast<const Piece*>(static_cast<const T*>(args.inputs[k]) + i);
    ((sums[p] += in[p]), ...);
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (args.divisor != 1) ((sums[p] /= static_cast<T>(args.divisor)), ...);
  }
  auto* const out = reinterpret_cast<Piece*>(static_cast<T*>(args.out) + i);
  if constexpr (kBypassesCache) {
    (CopyPastCaches<kBytes>(&sums[p], out + p), ...);
  } else {
    ((out[p] = sums[p]), ...);
  }
}

// Adds kBytes bytes of each operand, from element `i` on.
template <typename T, size_t kBytes, size_t kVectorBytes, bool kBypassesCache>
CONDACC_ALWAYS_INLINE void AddBlock(const DenseAddArgs& args, size_t i) {
  constexpr size_t kPieceBytes = std::min(kBytes, kVectorBytes);
  AddPieces<T, kPieceBytes, kBypassesCache && kPieceBytes == kVectorBytes>(
      args, i, std::make_index_sequence<kBytes / kPieceBytes>());
}

// Adds the numbers [begin, end), fewer than 2 * kBytes bytes of each operand, in ever smaller
// blocks.
template <typename T, size_t kBytes, size_t kVectorBytes, bool kBypassesCache>
CONDACC_ALWAYS_INLINE void AddRest(const DenseAddArgs& args, size_t begin, size_t end) {
  if constexpr (kBytes >= sizeof(T)) {
    constexpr size_t kSize = kBytes / sizeof(T);
    if ((end - begin) & kSize) {
      AddBlock<T, kBytes, kVectorBytes, kBypassesCache>(args, begin);
      begin += kSize;
    }
    AddRest<T, kBytes / 2, kVectorBytes, kBypassesCache>(args, begin, end);
  }
}

// Adds the numbers [begin, end). `out` may be one of the operands, since all operands of a block
// are read before it is written.
template <typename T, size_t kVectorBytes, bool kBypassesCache>
CONDACC_ALWAYS_INLINE void AddBlocks(const DenseAddArgs& args, size_t begin, size_t end) {
  constexpr size_t kBlockBytes = 8 * kVectorBytes;
  constexpr size_t kSize = kBlockBytes / sizeof(T);
  for (; end - begin >= kSize; begin += kSize) {
    AddBlock<T, kBlockBytes, kVectorBytes, kBypassesCache>(args, begin);
  }
  AddRest<T, kBlockBytes / 2, kVectorBytes, kBypassesCache>(args, begin, end);
}

// Adds the inputs with the numbers k in one pass, in whole vectors. All are read side by side, as
// steady streams that the processor prefetches.
template <typename T, size_t kVectorBytes, size_t... k>
CONDACC_ALWAYS_INLINE void AddSideBySide(const DenseAddArgs& args, size_t begin, size_t end,
                                         std::index_sequence<k...>) {
  using Vector = typename PieceOf<T, kVectorBytes>::Type;
  const auto vector = [](const T* from) { return reinterpret_cast<const Vector*>(from); };
  const auto* const first = static_cast<const T*>(args.first);
  [[maybe_unused]] const T* const in[sizeof...(k) + 1] = {static_cast<const T*>(args.inputs[k])...};
  auto* const out = static_cast<T*>(args.out);
  [[maybe_unused]] const auto divisor = static_cast<T>(args.divisor);
  const bool divides = args.divisor != 1;
  for (size_t i = begin; i < end; i += kVectorBytes / sizeof(T)) {
    Vector sum = *vector(first + i);
    ((sum += *vector(in[k] + i)), ...);
    if constexpr (std::is_floating_point_v<T>) {
      if (divides) sum /= divisor;
    }
    *reinterpret_cast<Vector*>(out + i) = sum;
  }
}

// Adds the numbers [begin, end) of a type whose sums are of the same type. This function is
// compiled for the processor of the function into which it is inlined. `Pass` must be for the same.
template <class Pass, typename T, size_t kVectorBytes>
CONDACC_ALWAYS_INLINE void AddRange(const DenseAddArgs& args, size_t begin, size_t end) {
  const auto out = reinterpret_cast<uintptr_t>(static_cast<T*>(args.out) + begin);
  const bool is_aligned = (out | (end - begin) * sizeof(T)) % kVectorBytes == 0;
  if (args.bypasses_cache && is_aligned) {
    return AddBlocks<T, kVectorBytes, true>(args, begin, end);
  }
  if (end - begin >= kMinSideBySide) {
    constexpr size_t kLanes = kVectorBytes / sizeof(T);
    const size_t whole = begin + (end - begin) / kLanes * kLanes;
    AddInPasses<Pass, T, T>(args, begin, whole);
    begin = whole;
  }
  AddBlocks<T, kVectorBytes, false>(args, begin, end);
}

template <typename T>
struct PlainPass {
  template <size_t kInputs>
  static void Run(const DenseAddArgs& args, size_t begin, size_t end) {
    AddSideBySide<T, 16>(args, begin, end, std::make_index_sequence<kInputs>());
  }
};

template <typename T>
void AddPlain(const DenseAddArgs& args, size_t begin, size_t end) {
  AddRange<PlainPass<T>, T, 16>(args, begin, end);
}

#if defined(CONDACC_AVX2)
template <typename T>
struct Avx2Pass {
  template <size_t kInputs>
  static CONDACC_AVX2 void Run(const DenseAddArgs& args, size_t begin, size_t end) {
    AddSideBySide<T, 32>(args, begin, end, std::make_index_sequence<kInputs>());
  }
};

template <typename T>
CONDACC_AVX2 void AddAvx2(const DenseAddArgs& args, size_t begin, size_t end) {
  AddRange<Avx2Pass<T>, T, 32>(args, begin, end);
}
#endif

// Copies a range, which is the sum of a single gradient. Several threads copy a large one faster,
// because the first touch of fresh memory takes most of the time.
void CopyRange(const DenseAddArgs& args, size_t begin, size_t end) {
  if (begin == end) return;  // The pointers may be null then.
  const size_t size = args.out_is_float32 ? sizeof(float) : SizeOf(args.type) / NumParts(args.type);
  std::memmove(static_cast<char*>(args.out) + begin * size,
               static_cast<const char*>(args.first) + begin * size, (end - begin) * size);
}

DenseAdder AdderFor(const DenseAddArgs& args) {
  const bool is_copy =
      args.num_inputs == 0 && args.divisor == 1 && args.first_is_float32 == args.out_is_float32;
  return is_copy ? CopyRange : DenseAdderOf(args.type);
}

}  // namespace

// Complex numbers are added, and divided by a real number, as pairs of real numbers. Integers are
// added as unsigned integers, for which an overflow is defined to wrap.
DenseAdder DenseAdderOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return Float16Adder();
    case ElementType::kBFloat16:
      return BFloat16Adder();
    case ElementType::kFloat32:
    case ElementType::kComplex64:
      return CONDACC_CHOOSE(AddPlain<float>, AddAvx2<float>);
    case ElementType::kFloat64:
    case ElementType::kComplex128:
      return CONDACC_CHOOSE(AddPlain<double>, AddAvx2<double>);
    case ElementType::kInt32:
      return CONDACC_CHOOSE(AddPlain<uint32_t>, AddAvx2<uint32_t>);
    case ElementType::kInt64:
      return CONDACC_CHOOSE(AddPlain<uint64_t>, AddAvx2<uint64_t>);
  }
  return nullptr;
}

void AddDense(const DenseAddArgs& args, const ParallelFor& parallel_for) {
  const size_t total = args.num_elements * NumParts(args.type);
  const DenseAdder add = AdderFor(args);
  if (total < kMinParallel) return add(args, 0, total);
  parallel_for(total, kParallelChunk,
               [&args, add](size_t begin, size_t end) { add(args, begin, end); });
}

void FlushBypassedStores() {
#if defined(CONDACC_AVX2)
  _mm_sfence();
#endif
}

}  // namespace condacc
