// Conversions to CUDA's types for float16 and bfloat16. For .cu.cc files.
#ifndef CONDACC_GPU_NARROW_ELEMENTS_H_
#define CONDACC_GPU_NARROW_ELEMENTS_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cc/gpu/elements.h"

namespace condacc {

template <>
CONDACC_HOST_DEVICE inline __half Rounded<__half, float>(float sum) {
  return __float2half_rn(sum);
}

template <>
CONDACC_HOST_DEVICE inline __nv_bfloat16 Rounded<__nv_bfloat16, float>(float sum) {
  return __float2bfloat16_rn(sum);
}

}  // namespace condacc

#endif  // CONDACC_GPU_NARROW_ELEMENTS_H_
