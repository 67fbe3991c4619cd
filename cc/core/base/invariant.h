// Conditions that hold unless the core itself has a bug.
#ifndef CONDACC_CORE_BASE_INVARIANT_H_
#define CONDACC_CORE_BASE_INVARIANT_H_

#if defined(CONDACC_CHECK_INVARIANTS)

#include <cstdio>
#include <cstdlib>

// Aborts the process if the condition does not hold. Only the C++ tests evaluate the condition, so
// it must have no side effects.
#define CONDACC_INVARIANT(condition)                                                         \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#else

#define CONDACC_INVARIANT(condition) static_cast<void>(0)

#endif

#endif  // CONDACC_CORE_BASE_INVARIANT_H_
