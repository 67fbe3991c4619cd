// Memory for gradients that keeps count of itself, and a workspace that can be told to fail.
#ifndef CONDACC_TESTS_DENSE_TEST_BLOCK_H_
#define CONDACC_TESTS_DENSE_TEST_BLOCK_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/dense/dense_math.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/base/parallel_for_support.h"

namespace condacc {

// Owns its memory, or refers to that of a test. Not from `operator new`, so that tests may make
// that fail on its own.
class TestBlock {
 public:
  TestBlock() = default;

  static TestBlock Owning(size_t num_bytes) {
    return TestBlock(std::malloc(std::max<size_t>(num_bytes, 1)), true, num_bytes);
  }
  static TestBlock Borrowing(void* data) { return TestBlock(data, false, 0); }

  void* data() const { return data_.get(); }
  explicit operator bool() const { return data_ != nullptr; }

  // Who reads the first bytes, so many, all the same gets nonsense.
  void Discard(size_t num_bytes) {
    ASSERT_LE(num_bytes, num_bytes_);
    ASSERT_GE(num_bytes, num_discarded_);
    std::memset(data(), 0xcb, num_bytes);
    Discarded() += static_cast<int64_t>(num_bytes - num_discarded_);
    num_discarded_ = num_bytes;
  }
  // Bytes, in the whole process.
  static int64_t num_discarded() { return Discarded(); }

  // Blocks of both kinds that are not empty, in the whole process.
  static int64_t num_live() { return Live(); }

 private:
  struct Release {
    Release() : owns(false) {}
    explicit Release(bool owns) : owns(owns) {}
    bool owns;
    void operator()(void* data) const {
      if (owns) std::free(data);
      --Live();
    }
  };

  TestBlock(void* data, bool owns, size_t num_bytes)
      : data_(data, Release(owns)), num_bytes_(num_bytes) {
    ++Live();
  }

  static std::atomic<int64_t>& Discarded() {
    static std::atomic<int64_t> discarded{0};
    return discarded;
  }

  static std::atomic<int64_t>& Live() {
    static std::atomic<int64_t> live{0};
    return live;
  }

  std::unique_ptr<void, Release> data_;
  size_t num_bytes_ = 0;
  size_t num_discarded_ = 0;
};

class TestWorkspace : public DenseWorkspace<TestBlock> {
 public:
  Status Allocate(ElementType type, const Shape& shape, TestBlock* block) override {
    if (num_allocations_++ == refused_allocation_) {
      return Status(StatusCode::kResourceExhausted, "The test refuses memory");
    }
    *block = TestBlock::Owning(static_cast<size_t>(shape.num_elements()) * SizeOf(type));
    return Status();
  }
  void Sum(const DenseSumArgs& args) override {
    ++num_sums_;
    SumDense(args, SerialFor);
  }

  // The allocation number `ordinal` from now on, counted from 0, is to fail.
  void RefuseAllocation(int ordinal) { refused_allocation_ = num_allocations_ + ordinal; }

  int num_allocations() const { return num_allocations_; }
  int num_sums() const { return num_sums_; }

 private:
  int num_allocations_ = 0;
  int refused_allocation_ = -1;
  int num_sums_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_DENSE_TEST_BLOCK_H_
