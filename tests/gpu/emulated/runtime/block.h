// The threads of a block that wait for each other: fibres that run in turn.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_BLOCK_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_BLOCK_H_

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/gpu/emulated/runtime/thread.h"

namespace condacc {
namespace emulated {

inline constexpr uint32_t kMaxThreads = 1024;
inline constexpr uint32_t kWarpSize = 32;
inline constexpr uint32_t kMaxBarriers = 16;

// The values that the lanes of a warp bring to an exchange; 0 for those that take no part.
using WarpValues = std::array<uint64_t, kWarpSize>;

class Block {
 public:
  // Runs all threads to their end, as soon as each can, in ascending order. Fails if all of those
  // that are left wait.
  void Run(std::vector<Thread>* threads);

  // Waits until all lanes of `mask` that are left have called it with the same `kind`, and returns
  // what each of them brought.
  const WarpValues& Exchange(const Thread* c, int kind, uint64_t value, uint32_t mask);

  // Waits until `count` threads, or all that are left if it is 0, are at the barrier.
  void WaitAtBarrier(const Thread* c, uint32_t barrier, uint32_t count);

  // A barrier for all threads. Returns how many came with `holds`.
  uint32_t CountAtBarrier(const Thread* c, uint32_t barrier, bool holds);

 private:
  enum State { kCanRun, kInExchange, kAtBarrier, kDone };
  // A fibre is entered by its context once, and by a jump from then on: a change of contexts asks
  // the system for signals each time.
  struct Fibre {
    ucontext_t context;
    jmp_buf place;
    bool has_begun;
    State state;
    uint32_t mask;
    uint32_t barrier;
    int kind;
    uint64_t value;
    WarpValues exchanged;
  };

  static void Main();
  void Start(uint32_t number);
  void Resume(uint32_t number);
  void Yield(Fibre* fibre);
  bool AllLanesAreThere(const Thread* c, uint32_t mask);
  void Release(uint32_t barrier);
  uint32_t NumThreads() const { return static_cast<uint32_t>(threads_->size()); }
  Fibre* FibreOf(const Thread* c) { return &fibres_[static_cast<size_t>(c - threads_->data())]; }

  std::vector<Thread>* threads_ = nullptr;
  std::vector<Fibre> fibres_{kMaxThreads};
  jmp_buf scheduler_;
  uint32_t running_ = 0;
  uint32_t num_done_ = 0;
  std::array<uint32_t, kMaxBarriers> num_arrived_{};
  uint32_t num_counted_ = 0;
};

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_BLOCK_H_
