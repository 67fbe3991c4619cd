#include "cc/core/dense/row_math.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cc/core/base/cpu_features.h"
#include "cc/core/dense/dense_math.h"

#if defined(CONDACC_AVX2)
#include <immintrin.h>
#endif

namespace condacc {
namespace {

// Adds a row of any type, on any processor.
void AddAny(const RowAdder& adder, const RowAddArgs& row) {
  DenseAddArgs args;
  args.type = adder.type();
  args.num_elements = adder.width();
  args.out = row.out;
  args.first = row.first;
  args.inputs = row.inputs;
  args.num_inputs = row.num_inputs;
  args.divisor = row.divisor;
  args.first_is_float32 = row.first_is_float32;
  args.out_is_float32 = adder.out_is_float32();
  AddDense(args);
}

#if defined(CONDACC_AVX2)

constexpr size_t kVectorBytes = 32;

// kBytes bytes of elements of type T, in memory of any alignment. Integers are added as unsigned
// integers. This is a trait and not std::conditional, because a vector type loses its attributes as
// a template argument.
template <typename T, size_t kBytes, bool kIsOneElement>
struct PieceOf {
  typedef T Type __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};
template <typename T, size_t kBytes>
struct PieceOf<T, kBytes, true> {
  using Type = T;
};

// Adds kNum adjacent pieces of each operand, beginning at element `i`.
template <typename T, size_t kBytes, size_t kNum, bool kStreams>
CONDACC_AVX2 CONDACC_ALWAYS_INLINE void AddPieces(const RowAddArgs& row, size_t i) {
  using Piece = typename PieceOf<T, kBytes, kBytes == sizeof(T)>::Type;
  const auto* first = reinterpret_cast<const Piece*>(static_cast<const T*>(row.first) + i);
  Piece sums[kNum];
  for (size_t p = 0; p < kNum; ++p) sums[p] = first[p];
  for (size_t k = 0; k < row.num_inputs; ++k) {
    const auto* in = reinterpret_cast<const Piece*>(static_cast<const T*>(row.inputs[k]) + i);
    for (size_t p = 0; p < kNum; ++p) sums[p] += in[p];
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (row.divisor != 1) {
      for (Piece& sum : sums) sum /= static_cast<T>(row.divisor);
    }
  }
  auto* const out = reinterpret_cast<Piece*>(static_cast<T*>(row.out) + i);
  for (size_t p = 0; p < kNum; ++p) {
    if constexpr (kStreams) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out + p), reinterpret_cast<__m256i>(sums[p]));
    } else {
      out[p] = sums[p];
    }
  }
}

// Adds a row of a type whose sums are of the same type.
template <typename T, bool kStreams>
CONDACC_AVX2 void AddAvx2(const RowAdder& adder, const RowAddArgs& row) {
  constexpr size_t kLanes = kVectorBytes / sizeof(T);
  const size_t size = adder.num_parts();
  size_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    AddPieces<T, kVectorBytes, 4, kStreams>(row, i);
  }
  for (; i + kLanes <= size; i += kLanes) AddPieces<T, kVectorBytes, 1, kStreams>(row, i);
  // A row whose size is not a multiple of a vector is never streamed.
  if (size & (kLanes / 2)) {
    AddPieces<T, kVectorBytes / 2, 1, false>(row, i);
    i += kLanes / 2;
  }
  if (size & (kLanes / 4)) {
    AddPieces<T, kVectorBytes / 4, 1, false>(row, i);
    i += kLanes / 4;
  }
  if constexpr (kLanes == 8) {
    if (size & 1) AddPieces<T, sizeof(T), 1, false>(row, i);
  }
}

#endif

}  // namespace

RowAdder::RowAdder(ElementType type, size_t width, bool out_is_float32, bool bypasses_cache,
                   const void* results)
    : type_(type),
      width_(width),
      num_parts_(width * NumParts(type)),
      out_is_float32_(out_is_float32),
      add_(AddAny),
      add_to_cache_(AddAny) {
#if defined(CONDACC_AVX2)
  if (!HasAvx2() || SumsInFloat32(type)) return;
  // Vectors that bypass the caches must be aligned.
  bypasses_cache_ = bypasses_cache && width * SizeOf(type) % kVectorBytes == 0 &&
                    reinterpret_cast<uintptr_t>(results) % kVectorBytes == 0;
  const auto choose = [this](auto number) {
    using T = decltype(number);
    add_to_cache_ = AddAvx2<T, false>;
    add_ = bypasses_cache_ ? AddAvx2<T, true> : AddAvx2<T, false>;
  };
  if (SizeOf(type) / NumParts(type) == sizeof(float)) {
    IsInteger(type) ? choose(uint32_t()) : choose(float());
  } else {
    IsInteger(type) ? choose(uint64_t()) : choose(double());
  }
#else
  (void)bypasses_cache;
  (void)results;
#endif
}

void RowAdder::Finish() const {
#if defined(CONDACC_AVX2)
  if (bypasses_cache_) _mm_sfence();
#endif
}

}  // namespace condacc
