// Runs a part of a test in a child of its process.
#ifndef CONDACC_TESTS_BASE_CHILD_PROCESS_H_
#define CONDACC_TESTS_BASE_CHILD_PROCESS_H_

#include <sys/wait.h>
#include <unistd.h>

namespace condacc {

// Returns whether a function returns true in a child that is forked from this process.
template <class Function>
bool HoldsInAChild(const Function& function) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(600);  // Ends a child that waits for ever.
    _exit(function() ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace condacc

#endif  // CONDACC_TESTS_BASE_CHILD_PROCESS_H_
