#include "tests/cc/explorer/programs.h"
namespace condacc::explorer {
void RunGateProgram() {}
}  // namespace condacc::explorer
