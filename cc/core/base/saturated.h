// Integer arithmetic that does not overflow.
#ifndef CONDACC_CORE_BASE_SATURATED_H_
#define CONDACC_CORE_BASE_SATURATED_H_

#include <cstdint>
#include <limits>

namespace condacc {

// Add and subtract integers. A result outside the range of int64_t is clamped to it.
inline int64_t SaturatedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}
inline int64_t SaturatedSubtract(int64_t a, int64_t b) {
  int64_t difference;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b > 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_SATURATED_H_
