// Memory of gradients and of their sums.
#ifndef CONDACC_CORE_BASE_BLOCK_H_
#define CONDACC_CORE_BASE_BLOCK_H_

#include <cstddef>
#include <utility>

namespace condacc {

// One reference to a piece of memory that somebody else counts the references of: a buffer of
// TensorFlow's, memory of a CUDA device, memory of a test. The reference is given up when the block
// is destroyed. A default-constructed block is empty; one of no bytes is not, though it may point
// to nothing. Makes no allocation.
class Block {
 public:
  // Gives the reference up.
  using Release = void (*)(void* owner);
  // Frees the first bytes, so many, earlier than the rest. They will not be read again.
  using Discard = void (*)(void* owner, size_t num_bytes);

  Block() = default;
  // Takes over a reference to `owner`. Without `discard`, memory is freed as a whole only.
  Block(void* data, void* owner, Release release, Discard discard = nullptr)
      : data_(data), owner_(owner), release_(release), discard_(discard) {}
  ~Block() { Reset(); }
  Block(Block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        owner_(other.owner_),
        release_(std::exchange(other.release_, nullptr)),
        discard_(other.discard_) {}
  Block& operator=(Block&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    owner_ = other.owner_;
    release_ = std::exchange(other.release_, nullptr);
    discard_ = other.discard_;
    return *this;
  }

  explicit operator bool() const { return release_ != nullptr; }
  // Of a block that is not empty.
  void* data() const { return data_; }
  void* owner() const { return owner_; }

  // The first bytes, so many, will not be read again. Numbers of later calls must be higher.
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

#endif  // CONDACC_CORE_BASE_BLOCK_H_
