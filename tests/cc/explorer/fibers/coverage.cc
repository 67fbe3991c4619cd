#include "tests/cc/explorer/fibers/coverage.h"

#include <cstddef>
#include <cstring>

#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc::explorer {
namespace {

struct Counted {
  const char* what = nullptr;
  int64_t numbers[3] = {};
  int64_t count = 0;
};

// A hash table with linear probing, which never allocates: the core is refused memory at times.
constexpr size_t kCapacity = 4096;
Counted table[kCapacity];

size_t FirstSlotOf(const char* what, const int64_t* numbers) {
  uint64_t hash = reinterpret_cast<uintptr_t>(what);
  for (int i = 0; i < 3; ++i) hash = hash * 31 + static_cast<uint64_t>(numbers[i]);
  return (hash * 0x9e3779b97f4a7c15) >> 52;
}

}  // namespace

void Reached(const char* what, int64_t a, int64_t b, int64_t c) {
  const int64_t numbers[] = {a, b, c};
  size_t slot = FirstSlotOf(what, numbers);
  for (size_t i = 0; i < kCapacity; ++i, slot = (slot + 1) % kCapacity) {
    Counted& counted = table[slot];
    if (counted.what == nullptr) {
      counted.what = what;
      std::memcpy(counted.numbers, numbers, sizeof numbers);
    }
    if (counted.what == what && std::memcmp(counted.numbers, numbers, sizeof numbers) == 0) {
      ++counted.count;
      return;
    }
  }
  Abort("too many different things are reached");
}

std::vector<State> ReachedStates() {
  std::vector<State> states;
  for (const Counted& counted : table) {
    if (counted.what == nullptr) continue;
    const auto& numbers = counted.numbers;
    states.push_back({counted.what, {numbers[0], numbers[1], numbers[2]}, counted.count});
  }
  return states;
}

}  // namespace condacc::explorer
