// Replays calls that libFuzzer has found, and makes calls that are drawn at random.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/fuzz/calls.h"

namespace condacc {
namespace {

std::string HexOf(const std::vector<uint8_t>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
  }
  return text;
}

TEST(Calls, AtRandomDoWhatTheyDoInTheModel) {
  const long long count = NumRounds(20000);
  std::mt19937 random(TestSeed());
  std::vector<uint8_t> bytes;
  for (long long i = 0; i < count; ++i) {
    bytes.resize(random() % 600);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    ASSERT_EQ(DifferenceIn(bytes.data(), bytes.size()), "") << HexOf(bytes);
  }
}

// Each line has the bytes of one program, in hexadecimal digits.
TEST(Calls, OfTheCorpusDoWhatTheyDoInTheModel) {
  std::ifstream corpus("tests/cc/fuzz/corpus.txt");
  std::string line;
  int count = 0;
  for (; std::getline(corpus, line); ++count) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < line.size(); i += 2) {
      bytes.push_back(static_cast<uint8_t>(std::stoi(line.substr(i, 2), nullptr, 16)));
    }
    EXPECT_EQ(DifferenceIn(bytes.data(), bytes.size()), "") << line;
  }
  EXPECT_GT(count, 0) << "the corpus is missing";
}

}  // namespace
}  // namespace condacc
