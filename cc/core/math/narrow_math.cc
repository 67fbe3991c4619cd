// Sums of float16 and bfloat16 gradients, which are added in float32.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/float16.h"
#include "cc/core/math/dense_math.h"
#include "cc/core/math/input_passes.h"

#if defined(CONDACC_AVX2)
#include <immintrin.h>
#elif defined(CONDACC_VECTORS)
#include <arm_neon.h>
#endif

namespace condacc {
namespace {

// Adds a range of elements of a type that is added in float32, chunk by chunk. `Narrow` is Float16
// or BFloat16.
template <typename Narrow>
void AddRangeInFloat32(const DenseAddArgs& args, size_t begin, size_t end) {
  float sums[kPassChunk];
  const float divisor = static_cast<float>(args.divisor);
  for (size_t b = begin; b < end; b += kPassChunk) {
    const size_t n = std::min(kPassChunk, end - b);
    if (args.first_is_float32) {
      std::memcpy(sums, static_cast<const float*>(args.first) + b, n * sizeof(float));
    } else {
      const Narrow* first = static_cast<const Narrow*>(args.first) + b;
      for (size_t i = 0; i < n; ++i) sums[i] = Narrow::ToFloat(first[i]);
    }
    for (size_t k = 0; k < args.num_inputs; ++k) {
      const Narrow* input = static_cast<const Narrow*>(args.inputs[k]) + b;
      for (size_t i = 0; i < n; ++i) sums[i] += Narrow::ToFloat(input[i]);
    }
    if (args.divisor != 1) {
      for (size_t i = 0; i < n; ++i) sums[i] /= divisor;
    }
    if (args.out_is_float32) {
      std::memcpy(static_cast<float*>(args.out) + b, sums, n * sizeof(float));
    } else {
      Narrow* out = static_cast<Narrow*>(args.out) + b;
      for (size_t i = 0; i < n; ++i) out[i] = Narrow::FromFloat(sums[i]);
    }
  }
}

#if defined(CONDACC_VECTORS)

#if defined(CONDACC_AVX2)
using Vector = __m256;
#else
using Vector = float32x4_t;
#endif

// The elements that are added at once, as two vectors of float32. Each of the structures below
// uses its own order of lanes, consistently.
struct TwoVectors {
  Vector a;
  Vector b;
};

constexpr size_t kLanes = sizeof(TwoVectors) / sizeof(float);

// Loads and stores float16. The first half of the elements is in `a`, and the other half in `b`.
struct Float16Lanes {
  using Narrow = Float16;
#if defined(CONDACC_AVX2)
  static CONDACC_AVX2 TwoVectors Load(const Float16* from) {
    return {Load8(from), Load8(from + 8)};
  }
  static CONDACC_AVX2 void Store(TwoVectors values, Float16* to) {
    Store8(values.a, to);
    Store8(values.b, to + 8);
  }
  static CONDACC_AVX2 TwoVectors LoadFloat32(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
  }
  static CONDACC_AVX2 void StoreFloat32(TwoVectors values, float* to) {
    _mm256_storeu_ps(to, values.a);
    _mm256_storeu_ps(to + 8, values.b);
  }

 private:
  static CONDACC_AVX2 __m256 Load8(const Float16* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static CONDACC_AVX2 void Store8(__m256 value, Float16* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  static TwoVectors Load(const Float16* from) {
    const float16x8_t values =
        vreinterpretq_f16_u16(vld1q_u16(reinterpret_cast<const uint16_t*>(from)));
    return {vcvt_f32_f16(vget_low_f16(values)), vcvt_high_f32_f16(values)};
  }
  static void Store(TwoVectors values, Float16* to) {
    const float16x8_t rounded = vcvt_high_f16_f32(vcvt_f16_f32(values.a), values.b);
    vst1q_u16(reinterpret_cast<uint16_t*>(to), vreinterpretq_u16_f16(rounded));
  }
  static TwoVectors LoadFloat32(const float* from) {
    return {vld1q_f32(from), vld1q_f32(from + 4)};
  }
  static void StoreFloat32(TwoVectors values, float* to) {
    vst1q_f32(to, values.a);
    vst1q_f32(to + 4, values.b);
  }
#endif
};

// Loads and stores bfloat16. Even elements are in `a`, and odd ones in `b`, because a shift or a
// mask then turns a bfloat16 into a float32 without moving it to another lane.
struct BFloat16Lanes {
  using Narrow = BFloat16;
  static CONDACC_VECTORS TwoVectors Load(const BFloat16* from) {
    Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    return {reinterpret_cast<Vector>(bits << 16), reinterpret_cast<Vector>(bits & kHighHalf)};
  }
  static CONDACC_VECTORS void Store(TwoVectors values, BFloat16* to) {
    const Bits bits = (Round(values.a) >> 16) | (Round(values.b) & kHighHalf);
    std::memcpy(to, &bits, sizeof bits);
  }
#if defined(CONDACC_AVX2)
  static CONDACC_AVX2 TwoVectors LoadFloat32(const float* from) {
    const __m256 low = _mm256_loadu_ps(from);
    const __m256 high = _mm256_loadu_ps(from + 8);
    return {InOrder(_mm256_shuffle_ps(low, high, 0b10001000)),
            InOrder(_mm256_shuffle_ps(low, high, 0b11011101))};
  }
  static CONDACC_AVX2 void StoreFloat32(TwoVectors values, float* to) {
    const __m256 low = _mm256_unpacklo_ps(values.a, values.b);
    const __m256 high = _mm256_unpackhi_ps(values.a, values.b);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
#else
  static TwoVectors LoadFloat32(const float* from) {
    const float32x4x2_t values = vld2q_f32(from);
    return {values.val[0], values.val[1]};
  }
  static void StoreFloat32(TwoVectors values, float* to) {
    const float32x4x2_t in_turn = {{values.a, values.b}};
    vst2q_f32(to, in_turn);
  }
#endif

 private:
  using Bits __attribute__((vector_size(sizeof(Vector)))) = uint32_t;
  using Signed __attribute__((vector_size(sizeof(Vector)))) = int32_t;

  static constexpr uint32_t kHighHalf = 0xffff0000u;

  // Rounds like BFloat16::FromFloat(), but leaves the result in the high half of each lane.
  static CONDACC_VECTORS Bits Round(Vector value) {
    const Bits bits = reinterpret_cast<Bits>(value);
    const Bits rounded = bits + ((bits >> 16) & 1u) + 0x7fffu;
    const Bits quiet_nan = (bits & 0x80000000u) | 0x7fc00000u;
    // All bits of a lane are set if it is a NaN.
    const Bits is_nan =
        reinterpret_cast<Bits>(reinterpret_cast<Signed>(bits & 0x7fffffffu) > 0x7f800000);
    return (quiet_nan & is_nan) | (rounded & ~is_nan);
  }

#if defined(CONDACC_AVX2)
  // Restores the order of elements that were shuffled within the two halves of a vector.
  static CONDACC_AVX2 __m256 InOrder(__m256 shuffled) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(shuffled), 0b11011000));
  }
#endif
};

// Adds kInputs inputs in one pass. All are read side by side, as steady streams that the processor
// prefetches.
template <typename Lanes>
struct NarrowPass {
  template <size_t kInputs>
  static CONDACC_VECTORS void Run(const DenseAddArgs& args, size_t begin, size_t end) {
    using Narrow = typename Lanes::Narrow;
    const Narrow* in[kInputs + 1];
    for (size_t k = 0; k < kInputs; ++k) in[k] = static_cast<const Narrow*>(args.inputs[k]);
    const Vector divisor = Vector{} + static_cast<float>(args.divisor);
    for (size_t i = begin; i < end; i += kLanes) {
      TwoVectors sum = args.first_is_float32
                           ? Lanes::LoadFloat32(static_cast<const float*>(args.first) + i)
                           : Lanes::Load(static_cast<const Narrow*>(args.first) + i);
      for (size_t k = 0; k < kInputs; ++k) {
        const TwoVectors input = Lanes::Load(in[k] + i);
        sum = {sum.a + input.a, sum.b + input.b};
      }
      if (args.divisor != 1) sum = {sum.a / divisor, sum.b / divisor};
      if (args.out_is_float32) {
        Lanes::StoreFloat32(sum, static_cast<float*>(args.out) + i);
      } else {
        Lanes::Store(sum, static_cast<Narrow*>(args.out) + i);
      }
    }
  }
};

template <typename Lanes>
void AddRangeInVectors(const DenseAddArgs& args, size_t begin, size_t end) {
  const size_t whole = begin + (end - begin) / kLanes * kLanes;
  AddInPasses<NarrowPass<Lanes>, typename Lanes::Narrow, float>(args, begin, whole);
  AddRangeInFloat32<typename Lanes::Narrow>(args, whole, end);
}

#endif

}  // namespace

DenseAdder Float16Adder() {
  return CONDACC_CHOOSE_VECTORS(AddRangeInFloat32<Float16>, AddRangeInVectors<Float16Lanes>);
}

DenseAdder BFloat16Adder() {
  return CONDACC_CHOOSE_VECTORS(AddRangeInFloat32<BFloat16>, AddRangeInVectors<BFloat16Lanes>);
}

}  // namespace condacc
