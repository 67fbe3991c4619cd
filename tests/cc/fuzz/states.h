// Saved states of accumulators that are any bytes.
#ifndef CONDACC_TESTS_FUZZ_STATES_H_
#define CONDACC_TESTS_FUZZ_STATES_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace condacc {

// Restores an accumulator, whose options the first byte tells, from the other bytes. Either it
// becomes one that is saved as the same bytes, and can be used, or there is an error and nothing
// has changed. Returns what is wrong, or an empty text.
std::string WrongStateIn(const uint8_t* bytes, size_t size);

// Returns bytes that begin with `options` and are a state, of a few random gradients.
std::string ValidState(uint8_t options, uint32_t seed);

}  // namespace condacc

#endif  // CONDACC_TESTS_FUZZ_STATES_H_
