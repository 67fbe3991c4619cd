// Memory for gradients that is counted, and a workspace that can be made to fail.
#ifndef CONDACC_TESTS_DENSE_TEST_BUFFER_H_
#define CONDACC_TESTS_DENSE_TEST_BUFFER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/invariant.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/math/dense_math.h"
#include "tests/cc/base/parallel_for_support.h"

namespace condacc {

// Makes buffers that own their memory or refer to memory of a test. Their memory does not come from
// `operator new`, so that tests can make that fail separately.
class TestBuffer {
 public:
  static Buffer Owning(size_t num_bytes) {
    return Of(std::malloc(std::max<size_t>(num_bytes, 1)), true, num_bytes);
  }
  static Buffer Borrowing(void* data) { return Of(data, false, 0); }

  // The number of bytes of freed buffers, in the whole process: now, and when a buffer was refilled
  // last.
  static int64_t num_freed_bytes() { return FreedBytes(); }
  static int64_t num_freed_at_refill() { return FreedAtRefill(); }
  // The number of buffers of both kinds that are not empty, in the whole process.
  static int64_t num_live() { return Live(); }

 private:
  struct Memory {
    void* data;
    bool owned;
    size_t num_bytes;
    size_t num_freed;
  };

  static Buffer Of(void* data, bool owned, size_t num_bytes) {
    auto* const memory = static_cast<Memory*>(std::malloc(sizeof(Memory)));
    *memory = {data, owned, num_bytes, 0};
    ++Live();
    return Buffer(data, memory, Release, Refill, FreeFirst);
  }

  static void Release(void* owner) {
    auto* const memory = static_cast<Memory*>(owner);
    FreedBytes() += static_cast<int64_t>(memory->num_bytes - memory->num_freed);
    if (memory->owned) std::free(memory->data);
    std::free(memory);
    --Live();
  }

  // Overwrites what follows, so that a test notices if it was in use already.
  static void Refill(void* owner, size_t num_bytes) {
    auto* const memory = static_cast<Memory*>(owner);
    CONDACC_INVARIANT(num_bytes <= memory->num_bytes);
    std::memset(static_cast<char*>(memory->data) + num_bytes, 0xcb, memory->num_bytes - num_bytes);
    FreedAtRefill() = FreedBytes().load();
  }

  // Overwrites what is freed, so that a test notices if it is still used.
  static void FreeFirst(void* owner, size_t num_bytes) {
    auto* const memory = static_cast<Memory*>(owner);
    CONDACC_INVARIANT(num_bytes <= memory->num_bytes && num_bytes >= memory->num_freed);
    std::memset(memory->data, 0x5b, num_bytes);
    FreedBytes() += static_cast<int64_t>(num_bytes - std::exchange(memory->num_freed, num_bytes));
  }

  static std::atomic<int64_t>& FreedBytes() {
    static std::atomic<int64_t> freed{0};
    return freed;
  }

  static std::atomic<int64_t>& FreedAtRefill() {
    static std::atomic<int64_t> freed{0};
    return freed;
  }

  static std::atomic<int64_t>& Live() {
    static std::atomic<int64_t> live{0};
    return live;
  }
};

class TestWorkspace : public HostWorkspace {
 public:
  explicit TestWorkspace(ParallelFor parallel_for = SerialFor)
      : parallel_for_(std::move(parallel_for)) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    if (num_allocations_++ == refused_allocation_) {
      return Status(StatusCode::kResourceExhausted, "The test refuses memory");
    }
    *buffer = TestBuffer::Owning(static_cast<size_t>(shape.num_elements()) * SizeOf(type));
    return Status();
  }
  Buffer AllocateInner(size_t num_bytes) override {
    if (num_allocations_++ == refused_allocation_) return Buffer();
    return TestBuffer::Owning(num_bytes);
  }
  const ParallelFor& parallel_for() const override { return parallel_for_; }
  void Add(const DenseAddArgs& args) override {
    ++num_sums_;
    HostWorkspace::Add(args);
  }

  // Makes an allocation fail: number `ordinal` from now on, counted from 0.
  void RefuseAllocation(int ordinal) { refused_allocation_ = num_allocations_ + ordinal; }

  int num_allocations() const { return num_allocations_; }
  int num_sums() const { return num_sums_; }

 private:
  const ParallelFor parallel_for_;
  int num_allocations_ = 0;
  int refused_allocation_ = -1;
  int num_sums_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_DENSE_TEST_BUFFER_H_
