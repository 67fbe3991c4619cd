// Damages saved states at random, and makes random ones.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/fuzz/states.h"

namespace condacc {
namespace {

std::string WrongIn(const std::string& bytes) {
  return WrongStateIn(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

TEST(States, ThatAreValidAreRestored) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const std::string bytes = ValidState(static_cast<uint8_t>(seed % 24), seed);
    ASSERT_EQ(WrongIn(bytes), "") << seed;
  }
}

TEST(States, ThatAreDamagedAreRefusedOrRestored) {
  const long long count = NumRounds(20000);
  std::mt19937 random(TestSeed());
  for (long long i = 0; i < count; ++i) {
    std::string bytes = ValidState(static_cast<uint8_t>(random() % 24), random());
    for (uint32_t k = 1 + random() % 3; k > 0; --k) {
      const size_t place = 1 + random() % (bytes.size() - 1);
      switch (random() % 4) {
        case 0:
          bytes[place] = static_cast<char>(random());
          break;
        case 1:
          bytes[place] ^= static_cast<char>(1 << random() % 8);
          break;
        case 2:
          bytes.resize(place + 1);
          break;
        default:
          bytes.insert(place, 1 + random() % 8, static_cast<char>(random() % 2 * 255));
      }
    }
    ASSERT_EQ(WrongIn(bytes), "") << i;
  }
}

}  // namespace
}  // namespace condacc
