// Lets libFuzzer find the bytes.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cc/fuzz/calls.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string difference = condacc::DifferenceIn(bytes, size);
  if (difference.empty()) return 0;
  std::fprintf(stderr, "the accumulator differs from the model: %s\n", difference.c_str());
  std::abort();
}
