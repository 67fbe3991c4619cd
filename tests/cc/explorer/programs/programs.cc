#include "tests/cc/explorer/programs/programs.h"

#include <cstddef>

#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc::explorer {
namespace {

struct NamedProgram {
  const char* name;
  Program program;
};

constexpr NamedProgram kPrograms[] = {
    {"dense", RunDenseProgram},   {"sparse", RunSparseProgram},
    {"device", RunDeviceProgram}, {"gate", RunGateProgram},
    {"bundle", RunBundleProgram}, {"staleness", RunStalenessProgram},
    {"tower", RunTowerProgram},   {"lost_update", RunLostUpdateProgram},
};

}  // namespace

Program FindProgram(const std::string& name) {
  for (const NamedProgram& program : kPrograms) {
    if (name == program.name) return program.program;
  }
  return nullptr;
}

void RunLostUpdateProgram() {
  constexpr int kThreads = 2;
  int count = 0;
  for (int i = 0; i < kThreads; ++i) {
    Spawn("thread " + std::to_string(i), [&count] {
      for (int k = 0; k < 10; ++k) Point("prepares");
      const int before = count;
      Point("has read");
      count = before + 1;
    });
  }
  RunFibers();
  if (count != kThreads) Fail("an update was lost");
}

}  // namespace condacc::explorer
