// Host memory that a device can write to while the host does something else. For .cu.cc files.
#ifndef CONDACC_GPU_PINNED_H_
#define CONDACC_GPU_PINNED_H_

#include <cuda_runtime.h>

#include <mutex>

namespace condacc {

// A T in pinned memory. Copies to it are asynchronous, whereas copies to other host memory block
// the thread and go through memory of the driver. Objects come from a pool that all devices share
// and that is never freed, because pinning is slow. Thread-safe.
template <typename T>
class Pinned {
 public:
  Pinned() {
    {
      const std::lock_guard<std::mutex> lock(pool_.mu);
      if (pool_.first != nullptr) {
        block_ = pool_.first;
        pool_.first = block_->next;
        return;
      }
    }
    void* data = nullptr;
    error_ = cudaHostAlloc(&data, sizeof(Block), cudaHostAllocPortable);
    block_ = static_cast<Block*>(data);
  }
  ~Pinned() {
    if (error_ != cudaSuccess) return;
    const std::lock_guard<std::mutex> lock(pool_.mu);
    block_->next = pool_.first;
    pool_.first = block_;
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  // If not cudaSuccess, the reason why there is no memory.
  cudaError_t error() const { return error_; }
  T* get() const { return &block_->value; }

 private:
  // In the pool, each block has the address of the next one, so that returning it needs no memory.
  union Block {
    T value;
    Block* next;
  };
  struct Pool {
    std::mutex mu;
    Block* first = nullptr;
  };
  static inline Pool pool_;

  Block* block_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace condacc

#endif  // CONDACC_GPU_PINNED_H_
