#include "tests/gpu/emulated/runtime/block.h"

#include <sys/mman.h>

#include <algorithm>

namespace condacc {
namespace emulated {
namespace {

constexpr size_t kStackBytes = 1 << 20;

// The barrier that separates the steps of CountAtBarrier().
constexpr uint32_t kCountingBarrier = kMaxBarriers - 1;

// Only one block runs at a time, so its stacks serve the next one.
char* Stack(uint32_t number) {
  static auto* const stacks =
      static_cast<char*>(mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  return stacks + number * kStackBytes;
}

// makecontext() passes no pointers.
Block* entered = nullptr;

}  // namespace

void Block::Main() {
  Block* const block = entered;
  Thread* const c = &(*block->threads_)[block->running_];
  c->kernel->run(c);
  Fibre* const fibre = block->FibreOf(c);
  fibre->state = kDone;
  block->Yield(fibre);
}

void Block::Start(uint32_t number) {
  Fibre* const fibre = &fibres_[number];
  fibre->state = kCanRun;
  fibre->has_begun = false;
  getcontext(&fibre->context);
  fibre->context.uc_stack.ss_sp = Stack(number);
  fibre->context.uc_stack.ss_size = kStackBytes;
  fibre->context.uc_link = nullptr;
  makecontext(&fibre->context, Main, 0);
}

void Block::Resume(uint32_t number) {
  running_ = number;
  entered = this;
  Fibre* const fibre = &fibres_[number];
  if (_setjmp(scheduler_) == 0) {
    if (fibre->has_begun) _longjmp(fibre->place, 1);
    fibre->has_begun = true;
    setcontext(&fibre->context);
  }
  if (fibres_[number].state != kDone) return;
  ++num_done_;
  for (uint32_t barrier = 0; barrier < kMaxBarriers; ++barrier) {
    const uint32_t arrived = num_arrived_[barrier];
    if (arrived > 0 && arrived == NumThreads() - num_done_) Release(barrier);
  }
}

void Block::Yield(Fibre* fibre) {
  if (_setjmp(fibre->place) == 0) _longjmp(scheduler_, 1);
}

void Block::Run(std::vector<Thread>* threads) {
  threads_ = threads;
  num_done_ = 0;
  num_arrived_.fill(0);
  for (uint32_t i = 0; i < NumThreads(); ++i) Start(i);
  while (num_done_ < NumThreads()) {
    bool has_run = false;
    for (uint32_t number = 0; number < NumThreads(); ++number) {
      if (fibres_[number].state != kCanRun) continue;
      has_run = true;
      Resume(number);
    }
    if (!has_run) Fail(&threads->front(), "all threads of a block wait");
  }
}

bool Block::AllLanesAreThere(const Thread* c, uint32_t mask) {
  const Fibre* const warp = &fibres_[c->warp * kWarpSize];
  const uint32_t num_lanes = std::min(kWarpSize, NumThreads() - c->warp * kWarpSize);
  for (uint32_t lane = 0; lane < num_lanes; ++lane) {
    if ((mask >> lane & 1) == 0 || warp[lane].state == kDone) continue;
    if (warp[lane].state != kInExchange || warp[lane].mask != mask) return false;
    if (warp[lane].kind != FibreOf(c)->kind) Fail(c, "lanes in different exchanges");
  }
  return true;
}

const WarpValues& Block::Exchange(const Thread* c, int kind, uint64_t value, uint32_t mask) {
  if ((mask >> c->lane & 1) == 0) Fail(c, "exchange of lanes without the caller");
  Fibre* const own = FibreOf(c);
  own->value = value;
  own->mask = mask;
  own->kind = kind;
  own->state = kInExchange;
  if (!AllLanesAreThere(c, mask)) {
    Yield(own);
    return own->exchanged;
  }
  Fibre* const warp = &fibres_[c->warp * kWarpSize];
  WarpValues values{};
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1) != 0 && warp[lane].state == kInExchange) values[lane] = warp[lane].value;
  }
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1) == 0 || warp[lane].state != kInExchange) continue;
    warp[lane].exchanged = values;
    warp[lane].state = kCanRun;
  }
  return own->exchanged;
}

void Block::Release(uint32_t barrier) {
  num_arrived_[barrier] = 0;
  for (uint32_t i = 0; i < NumThreads(); ++i) {
    if (fibres_[i].state == kAtBarrier && fibres_[i].barrier == barrier) fibres_[i].state = kCanRun;
  }
}

void Block::WaitAtBarrier(const Thread* c, uint32_t barrier, uint32_t count) {
  if (barrier >= kMaxBarriers) Fail(c, "barrier of a number that does not exist");
  Fibre* const own = FibreOf(c);
  own->state = kAtBarrier;
  own->barrier = barrier;
  const uint32_t expected = count == 0 ? NumThreads() - num_done_ : count;
  if (++num_arrived_[barrier] == expected) {
    Release(barrier);
  } else {
    Yield(own);
  }
}

uint32_t Block::CountAtBarrier(const Thread* c, uint32_t barrier, bool holds) {
  WaitAtBarrier(c, kCountingBarrier, 0);
  num_counted_ = 0;
  WaitAtBarrier(c, kCountingBarrier, 0);
  num_counted_ += holds ? 1 : 0;
  WaitAtBarrier(c, barrier, 0);
  const uint32_t counted = num_counted_;
  WaitAtBarrier(c, kCountingBarrier, 0);
  return counted;
}

}  // namespace emulated
}  // namespace condacc
