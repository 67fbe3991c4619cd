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
      : parts_{data, owner, release, refill, free_first} {}
  ~Buffer() { Reset(); }
  Buffer(Buffer&& other) noexcept : parts_(std::exchange(other.parts_, Parts())) {}
  Buffer& operator=(Buffer&& other) noexcept {
    const Parts parts = std::exchange(other.parts_, Parts());
    Reset();
    parts_ = parts;
    return *this;
  }

  explicit operator bool() const { return parts_.release != nullptr; }
  // The memory and its owner, if the buffer is not empty.
  void* data() const { return parts_.data; }
  void* owner() const { return parts_.owner; }

  // Tells the owner that only the first `num_bytes` bytes have been used, so that it may exchange
  // the others for memory whose first touch costs less. A later call must not pass a lower number.
  void RefillAfter(size_t num_bytes) const {
    if (parts_.refill != nullptr) parts_.refill(parts_.owner, num_bytes);
  }

  // Tells the owner that the first `num_bytes` bytes will not be used any more, so that it may free
  // them. A later call must not pass a lower number.
  void FreeFirst(size_t num_bytes) const {
    if (parts_.free_first != nullptr) parts_.free_first(parts_.owner, num_bytes);
  }

 private:
  struct Parts {
    void* data = nullptr;
    void* owner = nullptr;
    Release release = nullptr;
    Change refill = nullptr;
    Change free_first = nullptr;
  };

  void Reset() {
    const Parts parts = std::exchange(parts_, Parts());
    if (parts.release != nullptr) parts.release(parts.owner);
  }

  Parts parts_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_BUFFER_H_
