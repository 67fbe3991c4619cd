// Stacks of fibers, and the switch from one to another.
#ifndef CONDACC_TESTS_EXPLORER_STACK_H_
#define CONDACC_TESTS_EXPLORER_STACK_H_

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace condacc::explorer {

// A stack and the code that runs on it. Tells AddressSanitizer of each switch.
class Stack {
 public:
  // The stack of the main program, or one on which nothing has been started.
  Stack() = default;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // Makes `body` run from its beginning at the next switch to this stack. It must not return.
  void Start(void (*body)());
  // Continues the code that runs on `to`. Returns when another stack switches back to this one,
  // which must not happen if this one `has_ended`.
  void SwitchTo(Stack& to, bool has_ended);

 private:
  static void Enter();
  void AnnounceSwitchTo(const Stack& to, bool has_ended);
  void AnnounceArrival();

  std::unique_ptr<char[]> memory_;
  const void* bottom_ = nullptr;
  size_t size_ = 0;
  void (*body_)() = nullptr;  // Set until the body begins.
  void* fake_stack_ = nullptr;
  ucontext_t start_;  // Where the body begins.
  jmp_buf position_;  // Where it continues.
};

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_STACK_H_
