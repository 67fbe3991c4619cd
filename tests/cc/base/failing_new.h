// Replaces operator new with one that fails on demand. To be included by the source of a test.
#ifndef CONDACC_TESTS_BASE_FAILING_NEW_H_
#define CONDACC_TESTS_BASE_FAILING_NEW_H_

#include <cstddef>
#include <cstdlib>
#include <new>

namespace condacc {

// The number of allocations of this thread so far.
inline thread_local int num_allocations = 0;
// The number of allocations of this thread that succeed before one fails. If negative, all succeed.
inline thread_local int allocations_left = -1;
// If true, all allocations after that one fail as well.
inline thread_local bool memory_stays_short = false;

// Makes a call in which allocation number `ordinal`, counted from 0, fails, or none if that is
// negative. Returns whether the call threw std::bad_alloc.
template <class Call>
bool ThrowsAt(int ordinal, const Call& call) {
  bool threw = false;
  allocations_left = ordinal;
  try {
    call();
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  allocations_left = -1;
  return threw;
}

}  // namespace condacc

__attribute__((noinline)) void* operator new(size_t num_bytes) {
  ++condacc::num_allocations;
  if (condacc::allocations_left == 0) {
    if (!condacc::memory_stays_short) condacc::allocations_left = -1;
    throw std::bad_alloc();
  }
  if (condacc::allocations_left > 0) --condacc::allocations_left;
  void* const memory = std::malloc(num_bytes > 0 ? num_bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void* operator new(size_t num_bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(num_bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#endif  // CONDACC_TESTS_BASE_FAILING_NEW_H_
