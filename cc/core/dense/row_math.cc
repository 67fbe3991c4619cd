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

// A vector of T in memory of any alignment. Integers are added as unsigned integers.
template <typename T>
struct Avx2 {
  typedef T Vector __attribute__((vector_size(kVectorBytes), aligned(alignof(T)), may_alias));
  static constexpr size_t kLanes = kVectorBytes / sizeof(T);

  // Loads and stores the first lanes, and touches no other memory.
  static CONDACC_AVX2 Vector LoadFirst(const T* from, __m256i lanes) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return reinterpret_cast<Vector>(
          _mm256_maskload_ps(reinterpret_cast<const float*>(from), lanes));
    } else {
      return reinterpret_cast<Vector>(
          _mm256_maskload_pd(reinterpret_cast<const double*>(from), lanes));
    }
  }
  static CONDACC_AVX2 void StoreFirst(T* to, __m256i lanes, Vector value) {
    if constexpr (sizeof(T) == sizeof(float)) {
      _mm256_maskstore_ps(reinterpret_cast<float*>(to), lanes, reinterpret_cast<__m256>(value));
    } else {
      _mm256_maskstore_pd(reinterpret_cast<double*>(to), lanes, reinterpret_cast<__m256d>(value));
    }
  }
  static CONDACC_AVX2 void Stream(T* to, Vector value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
  }
  // Returns the mask of the first `count` lanes.
  static CONDACC_AVX2 __m256i FirstLanes(size_t count) {
    constexpr int32_t kOnes = -1;
    alignas(kVectorBytes) static constexpr int32_t kMasks[16] = {
        kOnes, kOnes, kOnes, kOnes, kOnes, kOnes, kOnes, kOnes, 0, 0, 0, 0, 0, 0, 0, 0};
    const size_t words = count * sizeof(T) / sizeof(int32_t);
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - words));
  }
};

// Adds kNumVectors vectors of each operand at element `i`.
template <typename T, size_t kNumVectors, bool kStreams>
CONDACC_AVX2 CONDACC_ALWAYS_INLINE void AddVectors(const RowAddArgs& row, size_t i) {
  using Vector = typename Avx2<T>::Vector;
  constexpr size_t kLanes = Avx2<T>::kLanes;
  const auto load = [i](const void* from, size_t v) CONDACC_AVX2 {
    return *reinterpret_cast<const Vector*>(static_cast<const T*>(from) + i + v * kLanes);
  };
  Vector sums[kNumVectors];
  for (size_t v = 0; v < kNumVectors; ++v) sums[v] = load(row.first, v);
  for (size_t k = 0; k < row.num_inputs; ++k) {
    for (size_t v = 0; v < kNumVectors; ++v) sums[v] += load(row.inputs[k], v);
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (row.divisor != 1) {
      for (Vector& sum : sums) sum /= static_cast<T>(row.divisor);
    }
  }
  T* const out = static_cast<T*>(row.out) + i;
  for (size_t v = 0; v < kNumVectors; ++v) {
    if constexpr (kStreams) {
      Avx2<T>::Stream(out + v * kLanes, sums[v]);
    } else {
      *reinterpret_cast<Vector*>(out + v * kLanes) = sums[v];
    }
  }
}

// Adds a row of a type whose sums are of the same type.
template <typename T, bool kStreams>
CONDACC_AVX2 void AddAvx2(const RowAdder& adder, const RowAddArgs& row) {
  using Vector = typename Avx2<T>::Vector;
  constexpr size_t kLanes = Avx2<T>::kLanes;
  const size_t size = adder.num_parts();
  size_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) AddVectors<T, 4, kStreams>(row, i);
  for (; i + kLanes <= size; i += kLanes) AddVectors<T, 1, kStreams>(row, i);
  if (i == size) return;
  const __m256i lanes = Avx2<T>::FirstLanes(size - i);
  Vector sum = Avx2<T>::LoadFirst(static_cast<const T*>(row.first) + i, lanes);
  for (size_t k = 0; k < row.num_inputs; ++k) {
    sum += Avx2<T>::LoadFirst(static_cast<const T*>(row.inputs[k]) + i, lanes);
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (row.divisor != 1) sum /= static_cast<T>(row.divisor);
  }
  Avx2<T>::StoreFirst(static_cast<T*>(row.out) + i, lanes, sum);
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
      add_in_place_(AddAny) {
#if defined(CONDACC_AVX2)
  if (!HasAvx2() || SumsInFloat32(type)) return;
  // Vectors that bypass the caches must be aligned.
  bypasses_cache_ = bypasses_cache && width * SizeOf(type) % kVectorBytes == 0 &&
                    reinterpret_cast<uintptr_t>(results) % kVectorBytes == 0;
  const auto choose = [this](auto number) {
    using T = decltype(number);
    add_in_place_ = AddAvx2<T, false>;
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
