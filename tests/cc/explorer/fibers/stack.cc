// _longjmp() between stacks would be refused if it were checked.
#undef _FORTIFY_SOURCE
#include "tests/cc/explorer/fibers/stack.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace condacc::explorer {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

Stack* arrived_from = nullptr;
Stack* arriving = nullptr;

}  // namespace

void Stack::Start(void (*body)()) {
  if (memory_ == nullptr) {
    memory_ = std::make_unique<char[]>(kStackBytes);
    bottom_ = memory_.get();
    size_ = kStackBytes;
  }
#if defined(__SANITIZE_ADDRESS__)
  // The last functions of the body before never returned, so their variables are still guarded.
  __asan_unpoison_memory_region(memory_.get(), kStackBytes);
#endif
  body_ = body;
  fake_stack_ = nullptr;
  getcontext(&start_);
  start_.uc_stack.ss_sp = memory_.get();
  start_.uc_stack.ss_size = size_;
  start_.uc_link = nullptr;
  makecontext(&start_, Enter, 0);
}

void Stack::Enter() {
  Stack* const stack = arriving;
  stack->AnnounceArrival();
  void (*const body)() = stack->body_;
  stack->body_ = nullptr;
  body();
}

// swapcontext() would be enough, but asks the system for the signal mask, which takes longer than
// the rest of a switch. So it is used only to begin a body.
void Stack::SwitchTo(Stack& to, bool has_ended) {
  AnnounceSwitchTo(to, has_ended);
  arrived_from = this;
  arriving = &to;
  if (_setjmp(position_) == 0) {
    if (to.body_ != nullptr) setcontext(&to.start_);
    _longjmp(to.position_, 1);
  }
  AnnounceArrival();
}

#if defined(__SANITIZE_ADDRESS__)

void Stack::AnnounceSwitchTo(const Stack& to, bool has_ended) {
  __sanitizer_start_switch_fiber(has_ended ? nullptr : &fake_stack_, to.bottom_, to.size_);
}

// The first fiber asks the sanitizer for the main program's stack.
void Stack::AnnounceArrival() {
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
  if (arrived_from->bottom_ == nullptr) {
    arrived_from->bottom_ = bottom;
    arrived_from->size_ = size;
  }
}

#else

void Stack::AnnounceSwitchTo(const Stack&, bool) {}
void Stack::AnnounceArrival() {}

#endif

}  // namespace condacc::explorer
