// A small generator of random numbers.
#ifndef CONDACC_TESTS_EXPLORER_RANDOM_H_
#define CONDACC_TESTS_EXPLORER_RANDOM_H_

#include <cstdint>

namespace condacc::explorer {

// SplitMix64. Unlike the distributions of the standard library, it draws the same numbers with
// every compiler, and it costs little to seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Returns a number in [0, count), or 0 if `count` is lower than 1.
  int64_t Below(int64_t count) {
    return count <= 1 ? 0 : static_cast<int64_t>(Next() % static_cast<uint64_t>(count));
  }

 private:
  uint64_t state_;
};

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_RANDOM_H_
