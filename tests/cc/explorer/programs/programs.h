// The programs whose schedules are explored.
#ifndef CONDACC_TESTS_EXPLORER_PROGRAMS_H_
#define CONDACC_TESTS_EXPLORER_PROGRAMS_H_

#include <string>

namespace condacc::explorer {

// Each program draws what it does, runs it on fibers, and calls Fail() if something is wrong.

// Threads apply, take, cancel, reset and read. A plain accumulator must have the same results.
void RunDenseProgram();
// The same, with more operations, refused memory and retries. Checks the history with
// CheckHistory().
void RunSparseProgram();
// The same with gradients that a device merges, which the host plays. Bad indices are found only
// when a take is prepared.
void RunDeviceProgram();
// Synchronous training: a SyncGate, dense accumulators, workers and chiefs, which fail, come back
// and are replaced.
void RunGateProgram();
// The same with workers that push all gradients of a step at the same time.
void RunBundleProgram();
// Updates ask a StalenessGate whether they come too late, and increment the step variable.
void RunStalenessProgram();
// Steps that sum the gradients of their towers, each in an accumulator of its own.
void RunTowerProgram();
// A fiber that fails if another one runs at a certain point.
void RunLostUpdateProgram();

using Program = void (*)();
// Returns null if there is no such program.
Program FindProgram(const std::string& name);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_PROGRAMS_H_
