// Reads the environment variables for tests that draw at random.
#ifndef CONDACC_TESTS_BASE_TEST_SETTINGS_H_
#define CONDACC_TESTS_BASE_TEST_SETTINGS_H_

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace condacc {

// Returns TF_CONDACC_TEST_ROUNDS, which says how often a test draws, or `otherwise` if it is not
// set.
inline long long NumRounds(long long otherwise) {
  const char* const text = std::getenv("TF_CONDACC_TEST_ROUNDS");
  return text == nullptr ? otherwise : std::atoll(text);
}

// Returns the seed that TF_CONDACC_TEST_SEED names, or a new one if that is "new". Otherwise
// returns 1, so that a test does the same each time. Prints a new seed.
inline unsigned TestSeed() {
  const char* const text = std::getenv("TF_CONDACC_TEST_SEED");
  if (text == nullptr) return 1;
  if (text != std::string("new")) return static_cast<unsigned>(std::strtoull(text, nullptr, 10));
  const unsigned seed = std::random_device()();
  std::fprintf(stderr, "TF_CONDACC_TEST_SEED=%u\n", seed);
  return seed;
}

}  // namespace condacc

#endif  // CONDACC_TESTS_BASE_TEST_SETTINGS_H_
