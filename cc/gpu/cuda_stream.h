// The type of CUDA's streams, for headers that are compiled without CUDA's.
#ifndef CONDACC_GPU_CUDA_STREAM_H_
#define CONDACC_GPU_CUDA_STREAM_H_

// As <cuda_runtime.h> declares it.
typedef struct CUstream_st* cudaStream_t;

#endif  // CONDACC_GPU_CUDA_STREAM_H_
