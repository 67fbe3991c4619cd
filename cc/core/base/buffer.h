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
  // The functions of an owner that can handle parts of its memory.
  struct Parts {
    // Frees the first `num_bytes` bytes before the rest. They will not be read again.
    void (*discard)(void* owner, size_t num_bytes);
    // May replace what follows the first `num_bytes` bytes, which has not been used yet, by memory
    // that was discarded elsewhere.
    void (*refill)(void* owner, size_t num_bytes);
  };

  Buffer() = default;
  // Takes over a reference to `owner`. If `parts` is null, the memory is only handled as a whole.
  Buffer(void* data, void* owner, Release release, const Parts* parts = nullptr)
      : data_(data), owner_(owner), release_(release), parts_(parts) {}
  ~Buffer() { Reset(); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        owner_(other.owner_),
        release_(std::exchange(other.release_, nullptr)),
        parts_(other.parts_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    owner_ = other.owner_;
    release_ = std::exchange(other.release_, nullptr);
    parts_ = other.parts_;
    return *this;
  }

  explicit operator bool() const { return release_ != nullptr; }
  // The memory and its owner, if the buffer is not empty.
  void* data() const { return data_; }
  void* owner() const { return owner_; }

  // Tells the owner that the first `num_bytes` bytes will not be read again, so that it may free
  // them. A later call must not pass a lower number.
  void DiscardFirst(size_t num_bytes) const {
    if (parts_ != nullptr) parts_->discard(owner_, num_bytes);
  }
  // Tells the owner that only the first `num_bytes` bytes have been used, so that it may exchange
  // the others for memory whose first touch costs less. A later call must not pass a lower number.
  void RefillAfter(size_t num_bytes) const {
    if (parts_ != nullptr) parts_->refill(owner_, num_bytes);
  }

 private:
  void Reset() {
    if (release_ != nullptr) std::exchange(release_, nullptr)(owner_);
  }

  void* data_ = nullptr;
  void* owner_ = nullptr;
  Release release_ = nullptr;
  const Parts* parts_ = nullptr;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_BUFFER_H_
