#include "tests/gpu/emulated/controls/planted_bugs.h"

#include <cuda_runtime.h>

#include <vector>

namespace condacc {
namespace emulated {
namespace {

constexpr int kThreads = 64;

// Each thread reads one element of `in`, of which there are as many as threads.
__global__ void Double(Bug bug, const int* in, const int* unwritten, int* out) {
  const int i = static_cast<int>(threadIdx.x);
  int value = 2 * in[bug == Bug::kReadsBeyondTheEnd ? i + 1 : i];
  if (bug == Bug::kReadsWhatIsNotWritten) value += unwritten[i];
  if (bug == Bug::kIsMisaligned && i == 3) {
    value += *reinterpret_cast<const int*>(reinterpret_cast<const char*>(in) + 2);
  }
  out[bug == Bug::kWritesBeyondTheEnd ? i + 1 : i] = value;
  if (bug == Bug::kWritesWhereOthersDo && i == 5) out[4] = 8;
  if (bug == Bug::kReadsWhatOthersWrite && i == 5) out[5] = out[4] + 2;
}

// The same by way of shared memory: what a thread takes from there is another one's.
__global__ void DoubleByOthers(Bug bug, const int* in, int* out) {
  __shared__ int staged[kThreads];
  const int i = static_cast<int>(threadIdx.x);
  const int other = kThreads - 1 - i;
  staged[i] = 2 * in[i];
  if (bug != Bug::kMissesABarrier) __syncthreads();
  if (bug == Bug::kWaitsForTooMany) asm volatile("bar.sync 1, 96;");
  out[other] = staged[other];
}

int* Allocate() {
  void* data = nullptr;
  cudaMalloc(&data, kThreads * sizeof(int));
  return static_cast<int*>(data);
}

}  // namespace

bool DoublesRightly(Bug bug) {
  std::vector<int> numbers;
  std::vector<int> doubled;
  for (int i = 0; i < kThreads; ++i) {
    numbers.push_back(i);
    doubled.push_back(2 * i);
  }
  int* const in = Allocate();
  int* const unwritten = Allocate();
  int* const out = Allocate();
  constexpr size_t kBytes = kThreads * sizeof(int);
  cudaMemcpy(in, numbers.data(), kBytes, cudaMemcpyHostToDevice);
  const int* const source = bug == Bug::kReadsHostMemory ? numbers.data() : in;
  Double<<<1, kThreads>>>(bug, source, unwritten, out);
  std::vector<int> got(kThreads);
  cudaMemcpy(got.data(), out, kBytes, cudaMemcpyDeviceToHost);
  if (got != doubled) return false;
  DoubleByOthers<<<1, kThreads>>>(bug, in, out);
  cudaMemcpy(got.data(), out, kBytes, cudaMemcpyDeviceToHost);
  for (int* data : {in, unwritten, out}) cudaFree(data);
  return got == doubled;
}

}  // namespace emulated
}  // namespace condacc
