// Marks functions that kernels share with tests on the CPU.
#ifndef CONDACC_GPU_HOST_DEVICE_H_
#define CONDACC_GPU_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define CONDACC_HOST_DEVICE __host__ __device__
#else
#define CONDACC_HOST_DEVICE
#endif

#endif  // CONDACC_GPU_HOST_DEVICE_H_
