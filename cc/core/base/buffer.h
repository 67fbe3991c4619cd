// A reference to a piece of memory, which holds a gradient or a sum.
#ifndef CONDACC_CORE_BASE_BUFFER_H_
#define CONDACC_CORE_BASE_BUFFER_H_

#include <cstddef>
#include <utility>

namespace condacc {

// One reference to a piece of memory whose owner counts the references: a TensorFlow buffer, memory
// of a CUDA device, or memory of a test. The destructor releases the reference. A
// default-constructed buffer is empty. A buffer of zero bytes is not empty, though its data() may
// be null. Buffers allocate nothing.
class Buffer {
 public:
  // Releases the reference.
  using Release = void (*)(void* owner);
  // May exchange or free a part of the memory; see RefillAfter() and FreeFirst().
  using Change = void (*)(void* owner, size_t num_bytes);

  Buffer() = default;
  // Takes over a reference to `owner`. If `refill` or `free_first` is null, it is not called.
  Buffer(void* data, void* owner, Release release, Change refill = nullptr,
         Change free_first = nullptr)
      : data_(data), owner_(owner), release_(release), refill_(refill), free_first_(free_first) {}
  ~Buffer() { Reset(); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        owner_(other.owner_),
        release_(std::exchange(other.release_, nullptr)),
        refill_(other.refill_),
        free_first_(other.free_first_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    owner_ = other.owner_;
    release_ = std::exchange(other.release_, nullptr);
    refill_ = other.refill_;
    free_first_ = other.free_first_;
    return *this;
  }

  explicit operator bool() const { return release_ != nullptr; }
  // The memory and its owner, if the buffer is not empty.
  void* data() const { return data_; }
  void* owner() const { return owner_; }

  // Tells the owner that only the first `num_bytes` bytes have been used, so that it may exchange
  // the others for memory whose first touch costs less. A later call must not pass a lower number.
  void RefillAfter(size_t num_bytes) const {
    if (refill_ != nullptr) refill_(owner_, num_bytes);
  }

  // Tells the owner that the first `num_bytes` bytes will not be used any more, so that it may free
  // them. A later call must not pass a lower number.
  void FreeFirst(size_t num_bytes) const {
    if (free_first_ != nullptr) free_first_(owner_, num_bytes);
  }

 private:
  void Reset() {
    if (release_ != nullptr) std::exchange(release_, nullptr)(owner_);
  }

  void* data_ = nullptr;
  void* owner_ = nullptr;
  Release release_ = nullptr;
  Change refill_ = nullptr;
  Change free_first_ = nullptr;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_BUFFER_H_
