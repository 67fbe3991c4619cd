// Loads, adds and divides elements, in kernels and in their tests on the CPU.
#ifndef CONDACC_GPU_ELEMENTS_H_
#define CONDACC_GPU_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cc/gpu/host_device.h"

namespace condacc {

// The number of bytes that one thread loads or stores at once.
inline constexpr size_t kVectorBytes = 16;

// Elements that are loaded and stored together.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T values[kWidth];
};

template <typename T, int kWidth>
CONDACC_HOST_DEVICE Pack<T, kWidth> LoadPack(const T* from, int64_t index) {
  return reinterpret_cast<const Pack<T, kWidth>*>(from)[index];
}

template <typename T, int kWidth>
CONDACC_HOST_DEVICE void StorePack(const Pack<T, kWidth>& pack, T* to, int64_t index) {
  reinterpret_cast<Pack<T, kWidth>*>(to)[index] = pack;
}

// The word that a device loads for a value of kBytes bytes.
#if defined(__CUDACC__)
template <size_t kBytes>
using WordOf = std::conditional_t<
    kBytes == 2, unsigned short,
    std::conditional_t<kBytes == 4, unsigned, std::conditional_t<kBytes == 8, uint2, uint4>>>;
#endif

// Loads a pack of an array in global memory, at an aligned address, that the kernel does not write
// to. The compiler does not know what kind of memory an address loaded from memory refers to, so
// the kind of the load is explicit.
template <typename T, int kWidth>
CONDACC_HOST_DEVICE Pack<T, kWidth> LoadConstantPack(const char* from, int64_t index) {
  using Packed = Pack<T, kWidth>;
  const auto* const packs = reinterpret_cast<const Packed*>(from);
#if defined(__CUDA_ARCH__)
  using Word = WordOf<sizeof(Packed)>;
  static_assert(sizeof(Word) == sizeof(Packed));
  const Word word = __ldg(reinterpret_cast<const Word*>(packs + index));
  Packed pack;
  memcpy(&pack, &word, sizeof(pack));
  return pack;
#else
  return packs[index];
#endif
}

// Returns whether packs of `width` elements can be loaded from `pointer`.
template <typename T>
bool IsAligned(const T* pointer, int width) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (sizeof(T) * static_cast<size_t>(width)) == 0;
}

// The type in which elements of type T are added: float for 16-bit types, and T itself for others.
// Integers are unsigned here, so that an overflow wraps.
template <typename T>
using SumType = std::conditional_t<sizeof(T) == 2, float, T>;

// Divides a sum. Integers are not divided: they have no mean, and their divisor is 1.
template <typename Sum>
CONDACC_HOST_DEVICE Sum Divided(Sum sum, Sum divisor) {
  if constexpr (std::is_floating_point_v<Sum>) return sum / divisor;
  return sum;
}

}  // namespace condacc

#endif  // CONDACC_GPU_ELEMENTS_H_
