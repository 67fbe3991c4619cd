// The states of accumulators as strings of bytes.
#ifndef CONDACC_TESTS_ACCUMULATOR_SAVED_BYTES_H_
#define CONDACC_TESTS_ACCUMULATOR_SAVED_BYTES_H_

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"

namespace condacc {

inline std::string SavedBytes(Accumulator& accumulator, Workspace& workspace) {
  struct alignas(64) Block {
    char bytes[64];
  };
  std::vector<Block> blocks;
  size_t size = 0;
  const Status status = accumulator.Save(workspace, [&](size_t num_bytes, char** memory) {
    EXPECT_TRUE(blocks.empty());
    blocks.resize(num_bytes / sizeof(Block) + 1);
    size = num_bytes;
    *memory = blocks[0].bytes;
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return std::string(reinterpret_cast<const char*>(blocks.data()), size);
}

inline Status RestoreBytes(const std::string& bytes, Accumulator& accumulator,
                           Workspace& workspace) {
  // A copy of exactly this size, so that a sanitizer sees reads beyond it.
  const std::vector<char> copy(bytes.begin(), bytes.end());
  return accumulator.Restore(copy.data(), copy.size(), workspace);
}

// Replaces the open round by what is saved of it.
inline void SaveAndRestore(Accumulator& accumulator, Workspace& workspace) {
  const std::string bytes = SavedBytes(accumulator, workspace);
  const Status status = RestoreBytes(bytes, accumulator, workspace);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(SavedBytes(accumulator, workspace), bytes);
}

}  // namespace condacc

#endif  // CONDACC_TESTS_ACCUMULATOR_SAVED_BYTES_H_
