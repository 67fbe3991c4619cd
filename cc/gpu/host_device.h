// Marks functions that kernels share with tests on the CPU, and loops in them.
#ifndef CONDACC_GPU_HOST_DEVICE_H_
#define CONDACC_GPU_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define CONDACC_HOST_DEVICE __host__ __device__
#else
#define CONDACC_HOST_DEVICE
#endif

#if defined(__CUDA_ARCH__)
#define CONDACC_UNROLL _Pragma("unroll")
#define CONDACC_NO_UNROLL _Pragma("unroll 1")
#else
#define CONDACC_UNROLL
#define CONDACC_NO_UNROLL
#endif

#endif  // CONDACC_GPU_HOST_DEVICE_H_
