#include "cc/gpu/dense_sum.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace condacc {
namespace {

constexpr int kThreads = 256;
constexpr int kVectorBytes = 16;
constexpr int kBlocksPerMultiprocessor = 8;

// The type in which elements of type T are added.
template <typename T>
struct Adder {
  using Type = float;
};
template <>
struct Adder<double> {
  using Type = double;
};

template <typename T>
__device__ T Convert(float value) {
  return static_cast<T>(value);
}
template <>
__device__ __half Convert<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __nv_bfloat16 Convert<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <typename T>
__device__ T Convert(double value) {
  return value;
}

template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T values[kWidth];
};

template <typename T>
struct Inputs {
  const T* of[kMaxGpuDenseSumInputs];
};

// `size` counts packs. The loads of all inputs are issued before the first addition.
template <typename T, typename First, typename Out, int kWidth>
__global__ void DenseSumKernel(const First* first, Inputs<T> inputs, int num_inputs,
                               typename Adder<T>::Type divisor, Out* out, int64_t size) {
  using Sum = typename Adder<T>::Type;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += stride) {
    const Pack<First, kWidth> start = reinterpret_cast<const Pack<First, kWidth>*>(first)[i];
    Pack<T, kWidth> loaded[kMaxGpuDenseSumInputs];
#pragma unroll
    for (int k = 0; k < kMaxGpuDenseSumInputs; ++k) {
      if (k < num_inputs) loaded[k] = reinterpret_cast<const Pack<T, kWidth>*>(inputs.of[k])[i];
    }
    Pack<Out, kWidth> result;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      Sum sum = static_cast<Sum>(start.values[j]);
#pragma unroll
      for (int k = 0; k < kMaxGpuDenseSumInputs; ++k) {
        if (k < num_inputs) sum += static_cast<Sum>(loaded[k].values[j]);
      }
      result.values[j] = Convert<Out>(sum / divisor);
    }
    reinterpret_cast<Pack<Out, kWidth>*>(out)[i] = result;
  }
}

template <typename T, int kWidth>
bool IsAligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (sizeof(T) * kWidth) == 0;
}

cudaError_t NumBlocks(int64_t num_threads, int* num_blocks) {
  int device = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const int64_t needed = (num_threads + kThreads - 1) / kThreads;
  const int64_t useful = static_cast<int64_t>(multiprocessors) * kBlocksPerMultiprocessor;
  *num_blocks = static_cast<int>(std::min(needed, useful));
  return error;
}

template <typename T, typename First, typename Out, int kWidth>
cudaError_t Launch(const GpuDenseSumArgs& args, const Inputs<T>& inputs, int64_t begin,
                   int64_t num_packs, cudaStream_t stream) {
  if (num_packs == 0) return cudaSuccess;
  int num_blocks = 0;
  const cudaError_t error = NumBlocks(num_packs, &num_blocks);
  if (error != cudaSuccess) return error;
  Inputs<T> shifted = inputs;
  for (int k = 0; k < args.num_inputs; ++k) shifted.of[k] += begin;
  DenseSumKernel<T, First, Out, kWidth><<<num_blocks, kThreads, 0, stream>>>(
      static_cast<const First*>(args.first) + begin, shifted, args.num_inputs,
      static_cast<typename Adder<T>::Type>(args.count), static_cast<Out*>(args.out) + begin,
      num_packs);
  return cudaGetLastError();
}

// Whole vectors where every buffer allows them, then what remains one by one.
template <typename T, typename First, typename Out>
cudaError_t LaunchTyped(const GpuDenseSumArgs& args, cudaStream_t stream) {
  constexpr int kWidth = kVectorBytes / std::max({sizeof(T), sizeof(First), sizeof(Out)});
  Inputs<T> inputs = {};
  bool aligned = IsAligned<First, kWidth>(args.first) && IsAligned<Out, kWidth>(args.out);
  for (int k = 0; k < args.num_inputs; ++k) {
    inputs.of[k] = static_cast<const T*>(args.inputs[k]);
    aligned = aligned && IsAligned<T, kWidth>(args.inputs[k]);
  }
  const int64_t num_packs = aligned ? args.size / kWidth : 0;
  const cudaError_t error = Launch<T, First, Out, kWidth>(args, inputs, 0, num_packs, stream);
  if (error != cudaSuccess) return error;
  const int64_t begin = num_packs * kWidth;
  return Launch<T, First, Out, 1>(args, inputs, begin, args.size - begin, stream);
}

template <typename T>
cudaError_t LaunchNarrow(const GpuDenseSumArgs& args, cudaStream_t stream) {
  if (args.first_is_float) {
    return args.out_is_float ? LaunchTyped<T, float, float>(args, stream)
                             : LaunchTyped<T, float, T>(args, stream);
  }
  return args.out_is_float ? LaunchTyped<T, T, float>(args, stream)
                           : LaunchTyped<T, T, T>(args, stream);
}

bool IsValid(const GpuDenseSumArgs& args) {
  if (args.size < 0 || args.count < 1) return false;
  if (args.num_inputs < 0 || args.num_inputs > kMaxGpuDenseSumInputs) return false;
  if (args.size == 0) return true;
  if (args.first == nullptr || args.out == nullptr) return false;
  return std::all_of(args.inputs, args.inputs + args.num_inputs,
                     [](const void* input) { return input != nullptr; });
}

}  // namespace

int LaunchGpuDenseSum(const GpuDenseSumArgs& args, void* stream) {
  if (!IsValid(args)) return cudaErrorInvalidValue;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  switch (args.element) {
    case GpuElement::kFloat:
      return LaunchTyped<float, float, float>(args, cuda_stream);
    case GpuElement::kDouble:
      return LaunchTyped<double, double, double>(args, cuda_stream);
    case GpuElement::kHalf:
      return LaunchNarrow<__half>(args, cuda_stream);
    case GpuElement::kBfloat16:
      return LaunchNarrow<__nv_bfloat16>(args, cuda_stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace condacc
