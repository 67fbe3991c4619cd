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
  // Frees the first `num_bytes` bytes before the rest. They will not be read again.
  using Discard = void (*)(void* owner, size_t num_bytes);

  Buffer() = default;
  // Takes over a reference to `owner`. If `discard` is null, the memory can only be freed as a
  // whole.
  Buffer(void* data, void* owner, Release release, Discard discard = nullptr)
      : data_(data), owner_(owner), release_(release), discard_(discard) {}
  ~Buffer() { Reset(); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        owner_(other.owner_),
        release_(std::exchange(other.release_, nullptr)),
        discard_(other.discard_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    owner_ = other.owner_;
    release_ = std::exchange(other.release_, nullptr);
    discard_ = other.discard_;
    return *this;
  }

  explicit operator bool() const { return release_ != nullptr; }
  // The memory and its owner, if the buffer is not empty.
  void* data() const { return data_; }
  void* owner() const { return owner_; }

  // Tells the owner that the first `num_bytes` bytes will not be read again, so that it may free
  // them. A later call must not pass a lower number.
  void DiscardFirst(size_t num_bytes) const {
    if (discard_ != nullptr) discard_(owner_, num_bytes);
  }

 private:
  void Reset() {
    if (release_ != nullptr) std::exchange(release_, nullptr)(owner_);
  }

  void* data_ = nullptr;
  void* owner_ = nullptr;
  Release release_ = nullptr;
  Discard discard_ = nullptr;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_BUFFER_H_
