// Host memory that a device can write to while the host does something else. For .cu.cc files.
#ifndef CONDACC_GPU_PINNED_H_
#define CONDACC_GPU_PINNED_H_

#include <cuda_runtime.h>

#include <mutex>
#include <vector>

namespace condacc {

// A T in pinned memory. Copies to it are asynchronous, whereas copies to other host memory block
// the thread and go through memory of the driver. Objects come from a pool that all devices share
// and that is never freed, because pinning is slow. Thread-safe.
template <typename T>
class Pinned {
 public:
  Pinned() {
    {
      const std::lock_guard<std::mutex> lock(GetPool().mu);
      std::vector<T*>& spares = GetPool().spares;
      if (!spares.empty()) {
        value_ = spares.back();
        spares.pop_back();
        return;
      }
    }
    void* data = nullptr;
    error_ = cudaHostAlloc(&data, sizeof(T), cudaHostAllocPortable);
    value_ = static_cast<T*>(data);
  }
  ~Pinned() {
    if (error_ != cudaSuccess) return;
    const std::lock_guard<std::mutex> lock(GetPool().mu);
    GetPool().spares.push_back(value_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  // If not cudaSuccess, the reason why there is no memory.
  cudaError_t error() const { return error_; }
  T* get() const { return value_; }

 private:
  struct Pool {
    std::mutex mu;
    std::vector<T*> spares;
  };
  static Pool& GetPool() {
    static auto* const pool = new Pool;
    return *pool;
  }

  T* value_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace condacc

#endif  // CONDACC_GPU_PINNED_H_
