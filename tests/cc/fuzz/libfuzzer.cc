// Lets libFuzzer find the bytes.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cc/fuzz/calls.h"
#include "tests/cc/fuzz/states.h"

#ifndef CONDACC_FUZZED
#define CONDACC_FUZZED DifferenceIn
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string difference = condacc::CONDACC_FUZZED(bytes, size);
  if (difference.empty()) return 0;
  std::fprintf(stderr, "something is wrong: %s\n", difference.c_str());
  std::abort();
}
