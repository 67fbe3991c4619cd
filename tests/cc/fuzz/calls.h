// Calls of an accumulator that are read from bytes, compared with a model.
#ifndef CONDACC_TESTS_FUZZ_CALLS_H_
#define CONDACC_TESTS_FUZZ_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace condacc {

// Makes the accumulator that the first bytes describe, and the calls that the others describe, one
// after the other. All bytes are valid. Stops at a call that does anything else than in the model,
// in which rows are added one by one in a map, and returns how they differ. Returns an empty text
// if they do not.
std::string DifferenceIn(const uint8_t* bytes, size_t size);

}  // namespace condacc

#endif  // CONDACC_TESTS_FUZZ_CALLS_H_
