#include "tests/cc/explorer/coverage_report.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cc/explorer/fibers/coverage.h"

namespace condacc::explorer {
namespace {

// A call or a transition, as Reached() counts it.
struct Expected {
  const char* what;
  std::array<int64_t, 3> numbers;
  const char* text;
  const char* test = nullptr;  // The test that reaches it, if the program does not.
};

constexpr Expected kCalls[] = {
    {"Accumulator::Apply", {0, 1, 0}, "Apply(): added"},
    {"Accumulator::Apply", {0, 2, 0}, "Apply(): stale"},
    {"Accumulator::Apply", {0, 3, 0}, "Apply(): duplicate"},
    {"Accumulator::Apply", {0, 4, 0}, "Apply(): ahead"},
    {"Accumulator::Apply", {3, 0, 0}, "Apply(): InvalidArgument"},
    {"Accumulator::Apply", {8, 0, 0}, "Apply(): ResourceExhausted"},
    {"Accumulator::Request", {0, 0, 0}, "Request()"},
    {"Accumulator::TryServe", {0, 0, 0}, "TryServe(): not ready"},
    {"Accumulator::TryServe", {1, 0, 0}, "TryServe(): ready"},
    {"Accumulator::Cancel", {0, 0, 0}, "Cancel()"},
    {"Accumulator::SetGlobalStep", {0, 0, 0}, "SetGlobalStep()"},
    {"Accumulator::Reset", {0, 0, 0}, "Reset()"},
    {"Accumulator::Reset", {1, 0, 0}, "Reset(only_forward)"},
    {"read", {0, 0, 0}, "num_accumulated()"},
    {"read", {1, 0, 0}, "global_step()"},
    {"read", {2, 0, 0}, "num_dropped()"},
    {"std::bad_alloc of a call", {0, 0, 0}, "Apply() throws"},
    {"std::bad_alloc of a call", {1, 0, 0}, "Request() throws"},
    {"std::bad_alloc of a call", {2, 0, 0}, "TryServe() throws"},
};

// The rows of NextAction that all programs of accumulators and towers reach.
constexpr Expected kRows[] = {
    {"NextAction", {0, 0, 0}, "NextAction: open, idle, the first take lacks gradients: nothing"},
    {"NextAction", {0, 0, 1}, "NextAction: open, idle, the first take has enough: serve"},
    {"NextAction", {0, 1, 0}, "NextAction: open, folding, the first take lacks gradients: nothing"},
    {"NextAction",
     {0, 1, 1},
     "NextAction: open, folding, the first take has enough: serve, or nothing if it needs memory"},
    {"NextAction", {1, 0, 0}, "NextAction: taken, idle: finish"},
};

// Only resets discard rounds.
constexpr Expected kDiscardedRows[] = {
    {"NextAction", {2, 0, 0}, "NextAction: discarded, idle: free"},
    {"NextAction", {2, 1, 0}, "NextAction: discarded, folding: nothing"},
};

constexpr Expected kStates[] = {
    {"Accumulator::Save", {0, 0, 0}, "Save()"},
    {"Accumulator::Save", {8, 0, 0}, "Save(): ResourceExhausted"},
    {"Accumulator::Restore", {0, 0, 0}, "Restore() of an empty state"},
    {"Accumulator::Restore", {0, 1, 0}, "Restore()"},
    {"Accumulator::Restore", {8, 1, 0}, "Restore(): ResourceExhausted"},
    {"std::bad_alloc of a call", {7, 0, 0}, "Save() throws"},
    {"std::bad_alloc of a call", {8, 0, 0}, "Restore() throws"},
    {"NextAction", {0, 3, 0}, "NextAction: open, saving, the first take lacks gradients: nothing"},
    {"NextAction",
     {0, 3, 1},
     "NextAction: open, saving, the first take has enough: serve, or nothing if it needs memory"},
    {"NextAction", {2, 3, 0}, "NextAction: discarded, saving: nothing"},
};

// Dense rounds leave while they are folded, and sparse takes are prepared first.
constexpr Expected kDenseRows[] = {
    {"NextAction", {1, 1, 0}, "NextAction: taken, folding: nothing"},
};
constexpr Expected kDenseStates[] = {
    {"NextAction", {1, 3, 0}, "NextAction: taken, saving: nothing"},
};
constexpr Expected kDeviceStates[] = {
    {"Accumulator::Save", {3, 0, 0}, "Save(): InvalidArgument"},
    {"Accumulator::Save", {13, 0, 0}, "Save(): Internal"},
    {"Accumulator::Restore", {13, 1, 0}, "Restore(): Internal"},
};
constexpr Expected kSparseRows[] = {
    {"NextAction", {0, 2, 1}, "NextAction: open, preparing, the first take has enough: nothing"},
};

constexpr Expected kTower[] = {
    {"tower adds", {0, 0, 0}, "Apply(): ResourceExhausted"},
    {"tower adds", {1, 0, 0}, "Apply(): added"},
    {"tower take", {0, 0, 0}, "TryServe() before all have added: not ready"},
    {"tower take", {0, 1, 0}, "TryServe() after an add that failed: not ready"},
    {"tower take", {1, 0, 0}, "TryServe() while others add: ready"},
    {"tower take", {1, 1, 0}, "TryServe(): ready"},
    {"std::bad_alloc of a call", {0, 0, 0}, "a call throws"},
};

constexpr Expected kStaleness[] = {
    {"StalenessGate::Decide", {0, 0, 0}, "Decide(): the step cannot be read"},
    {"StalenessGate::Decide", {1, 0, 0}, "Decide()"},
    {"StalenessGate::End", {0, 0, 0}, "End(): failed"},
    {"StalenessGate::End", {1, 0, 0}, "End(): applied"},
    {"StalenessGate::counts", {0, 0, 0}, "counts()"},
    {"StalenessGate::num_dropped", {0, 0, 0}, "num_dropped()"},
    {"StalenessGate::num_open", {0, 0, 0}, "num_open()"},
    {"decide", {0, 0, 0}, "dropped, no update is open"},
    {"decide", {0, 1, 0}, "dropped, updates are open"},
    {"decide", {1, 0, 0}, "accepted, no update is open"},
    {"decide", {1, 1, 0}, "accepted, updates are open"},
    {"decide again", {0, 0, 0}, "a decision is made again after another one"},
    {"expect", {0, 0, 0}, "the expected step is as it was"},
    {"expect", {1, 0, 0}, "the expected step is lower than it was"},
    {"expect", {2, 0, 0}, "the variable has passed the expected step"},
    {"reservation ends", {0, 0, 0}, "the last open update ends"},
    {"reservation ends", {1, 0, 0}, "one of several open updates ends"},
    {"std::bad_alloc of a call", {0, 0, 0}, "a decision throws"},
};

constexpr Expected kGate[] = {
    {"NextAction", {0, 0, 0}, "NextAction: open, idle, the first take lacks gradients: nothing"},
    {"NextAction", {0, 0, 1}, "NextAction: open, idle, the first take has enough: serve"},
    {"NextAction", {0, 1, 0}, "NextAction: open, folding, the first take lacks gradients: nothing"},
    {"NextAction",
     {0, 1, 1},
     "NextAction: open, folding, the first take has enough: serve, or nothing if it needs memory"},
    {"NextAction", {1, 0, 0}, "NextAction: taken, idle: finish"},
    {"NextAction", {1, 1, 0}, "NextAction: taken, folding: nothing"},
    {"NextAction", {2, 0, 0}, "NextAction: discarded, idle: free"},
    {"NextAction", {2, 1, 0}, "NextAction: discarded, folding: nothing"},
    {"SyncGate::AddCredits", {0, 0, 0}, "AddCredits()"},
    {"SyncGate::Advance", {0, 0, 0}, "Advance()"},
    {"SyncGate::Cancel", {0, 0, 0}, "Cancel()"},
    {"SyncGate::Close", {0, 0, 0}, "Close()"},
    {"SyncGate::Describe", {0, 0, 0}, "Describe()"},
    {"SyncGate::Dismiss", {0, 0, 0}, "Dismiss()"},
    {"SyncGate::Enter", {0, 0, 0}, "Enter()"},
    {"SyncGate::Leave", {0, 0, 0}, "Leave()"},
    {"SyncGate::Lose", {0, 0, 0}, "Lose()"},
    {"SyncGate::Open", {0, 0, 0}, "Open()"},
    {"SyncGate::Prepare", {0, 0, 0}, "Prepare()"},
    {"GateWait::status", {0, 0, 0}, "status()"},
    {"SyncGate::Wait", {0, 0, 0}, "Wait()"},
    {"SyncGate::state", {0, 0, 0}, "state()"},
    {"WorkerStep::ClaimSlot", {0, 0, 0}, "ClaimSlot()"},
    {"WorkerStep::Done", {0, 0, 0}, "Done()"},
    {"std::bad_alloc of a call", {0, 0, 0}, "a call throws"},
    {"prepare", {0, 0, 0}, "a chief prepares the gate: shut to preparing"},
    {"prepare", {0, 1, 0}, "a volunteer prepares the gate: shut to preparing"},
    {"prepare", {1, 0, 0}, "a chief prepares the gate: preparing to preparing"},
    {"prepare", {1, 0, 1}, "a chief prepares the gate again: preparing to preparing"},
    {"prepare", {1, 1, 0}, "a volunteer prepares the gate: preparing to preparing"},
    {"prepare",
     {1, 1, 1},
     "a volunteer prepares the gate again: preparing to preparing",
     "ChiefState.AVolunteerMayPrepareAgainInItsNextSessionAndAfterItsTraining"},
    {"prepare", {2, 0, 0}, "a chief prepares the gate: open to preparing"},
    {"prepare", {2, 0, 1}, "a chief prepares the gate again: open to preparing"},
    {"prepare",
     {2, 1, 0},
     "a volunteer prepares the gate: open to preparing",
     "SyncGateTest.AVolunteerTakesTheGateOfOneWhoseProcessHasEnded"},
    {"prepare", {2, 1, 1}, "a volunteer prepares the gate again: open to preparing"},
    {"prepare", {3, 0, 0}, "a chief prepares the gate: dismissed to preparing"},
    {"prepare", {3, 0, 1}, "a chief prepares the gate again: dismissed to preparing"},
    {"prepare", {3, 1, 0}, "a volunteer prepares the gate: dismissed to preparing"},
    {"prepare", {3, 1, 1}, "a volunteer prepares the gate again: dismissed to preparing"},
    {"prepare", {4, 0, 0}, "a chief prepares the gate: closed to preparing"},
    {"prepare",
     {4, 0, 1},
     "a chief prepares the gate again: closed to preparing",
     "SyncGateTest.AClosedGateEndsAllWaitsUntilItIsOpenedAgain"},
    {"prepare",
     {4, 1, 0},
     "a volunteer prepares the gate: closed to preparing",
     "ChiefState.AVolunteerMayPrepareAgainInItsNextSessionAndAfterItsTraining"},
    {"prepare",
     {4, 1, 1},
     "a volunteer prepares the gate again: closed to preparing",
     "ChiefState.AVolunteerMayPrepareAgainInItsNextSessionAndAfterItsTraining"},
    {"open", {1, 0, 0}, "preparing to open"},
    {"close", {1, 0, 0}, "preparing to closed"},
    {"close", {2, 0, 0}, "open to closed"},
    {"close", {3, 0, 0}, "dismissed to closed"},
    {"dismiss", {0, 0, 0}, "another chief is dismissed: shut"},
    {"dismiss", {1, 0, 0}, "another chief is dismissed: preparing"},
    {"dismiss", {2, 0, 0}, "another chief is dismissed: open"},
    {"dismiss", {3, 0, 0}, "another chief is dismissed: dismissed"},
    {"dismiss", {4, 0, 0}, "another chief is dismissed: closed"},
    {"dismiss", {1, 1, 0}, "the chief is dismissed: preparing to dismissed"},
    {"dismiss", {2, 1, 0}, "the chief is dismissed: open to dismissed"},
    {"dismiss", {3, 1, 0}, "the chief is dismissed: dismissed to dismissed"},
    {"dismiss", {4, 1, 0}, "the chief is dismissed: closed"},
    {"enter", {0, 0, 0}, "a step of the latest or first run begins"},
    {"enter", {1, 0, 0}, "a step of a new run replaces another one"},
    {"enter", {2, 0, 0}, "a step of a replaced run is refused"},
    {"enter", {0, 1, 0}, "a second step of a run is refused"},
    {"claim", {1, 0, 1}, "a slot is granted"},
    {"claim", {0, 0, 0}, "no slot for a step of a worker that is waited for in an earlier round"},
    {"claim", {0, 0, 1}, "no slot for a step of a worker that is waited for in the current round"},
    {"claim", {0, 1, 0}, "no slot for a step that was taken over in an earlier round"},
    {"claim", {0, 1, 1}, "no slot for a step that was taken over in the current round"},
    {"claim", {0, 2, 0}, "no slot for a step of a replaced run or session in an earlier round"},
    {"claim", {0, 2, 1}, "no slot for a step of a replaced run or session in the current round"},
    {"step ends", {0, 0, 0}, "a step without a slot fails"},
    {"step ends", {0, 1, 0}, "a step with a slot fails"},
    {"step ends", {1, 0, 0}, "a step without a slot ends"},
    {"step ends", {1, 1, 0}, "a step ends whose gradients were dropped"},
    {"step ends", {1, 1, 1}, "a step ends whose gradients were added"},
    {"slot is held", {0, 0, 0}, "slot: free to held"},
    {"slot is freed", {0, 0, 0}, "slot: a former holder frees a free one"},
    {"slot is freed", {1, 0, 0}, "slot: a former holder frees another's"},
    {"slot is freed", {1, 1, 0}, "slot: held to free"},
    {"slot is freed", {2, 0, 0}, "slot: a holder frees a complete one"},
    {"slot is complete", {0, 0, 0}, "slot: free to complete"},
    {"slot is complete", {1, 0, 0}, "slot: held to complete"},
    {"slot is complete", {2, 0, 0}, "slot: complete to complete"},
    {"wait ends", {0, 0, 0}, "a wait for the next round ends: OK"},
    {"wait ends", {0, 1, 0}, "a wait for the next round ends: Cancelled"},
    {"wait ends", {0, 9, 0}, "a wait for the next round ends: FailedPrecondition"},
    {"wait ends", {0, 11, 0}, "a wait for the next round ends: OutOfRange"},
    {"wait ends", {1, 0, 0}, "a wait for an opening ends: OK"},
    {"wait ends", {1, 1, 0}, "a wait for an opening ends: Cancelled"},
    {"wait ends", {1, 9, 0}, "a wait for an opening ends: FailedPrecondition"},
    {"wait ends", {2, 0, 0}, "a wait for a full round ends: OK"},
    {"wait ends", {2, 1, 0}, "a wait for a full round ends: Cancelled"},
    {"wait ends", {2, 9, 0}, "a wait for a full round ends: FailedPrecondition"},
    {"wait ends", {2, 11, 0}, "a wait for a full round ends: OutOfRange"},
    {"wait ends", {3, 0, 0}, "a wait for a report ends: OK"},
    {"wait ends", {3, 1, 0}, "a wait for a report ends: Cancelled"},
    {"wait ends", {3, 11, 0}, "a wait for a report ends: OutOfRange"},
    {"credit is spent", {0, 0, 0}, "a credit is spent"},
    {"deputy", {0, 0, 0}, "a deputy is given a round"},
    {"another gradient", {0, 0, 0}, "a worker is released for another gradient"},
    {"expectation ends", {0, 0, 0}, "the gate stops to wait for expected workers"},
    {"log", {0, 0, 0}, "a round is logged"},
    {"abandoned round", {0, 0, 0}, "a round is given up without workers"},
    {"takeover", {0, 0, 0}, "slots are taken over"},
    {"hold chief", {1, 0, 0}, "a full round waits for the next step of the chief's process"},
    {"hold chief", {0, 0, 0}, "the chief's process begins a step, leaves, or is not needed"},
    {"late calls of a replaced run", {0, 0, 0}, "a replaced run calls late"},
};

constexpr Expected kBundle[] = {
    {"bundle", {0, 0, 0}, "all gradients of a step are pushed at once"},
};

struct Group {
  const char* program;
  const Expected* begin;
  const Expected* end;
};

const Group kGroups[] = {
    {"dense", std::begin(kCalls), std::end(kCalls)},
    {"dense", std::begin(kRows), std::end(kRows)},
    {"dense", std::begin(kDiscardedRows), std::end(kDiscardedRows)},
    {"dense", std::begin(kDenseRows), std::end(kDenseRows)},
    {"dense", std::begin(kStates), std::end(kStates)},
    {"dense", std::begin(kDenseStates), std::end(kDenseStates)},
    {"sparse", std::begin(kCalls), std::end(kCalls)},
    {"sparse", std::begin(kRows), std::end(kRows)},
    {"sparse", std::begin(kDiscardedRows), std::end(kDiscardedRows)},
    {"sparse", std::begin(kSparseRows), std::end(kSparseRows)},
    {"sparse", std::begin(kStates), std::end(kStates)},
    {"device", std::begin(kCalls), std::end(kCalls)},
    {"device", std::begin(kRows), std::end(kRows)},
    {"device", std::begin(kDiscardedRows), std::end(kDiscardedRows)},
    {"device", std::begin(kSparseRows), std::end(kSparseRows)},
    {"device", std::begin(kStates), std::end(kStates)},
    {"device", std::begin(kDeviceStates), std::end(kDeviceStates)},
    {"gate", std::begin(kGate), std::end(kGate)},
    {"bundle", std::begin(kGate), std::end(kGate)},
    {"bundle", std::begin(kBundle), std::end(kBundle)},
    {"staleness", std::begin(kStaleness), std::end(kStaleness)},
    {"tower", std::begin(kRows), std::end(kRows)},
    {"tower", std::begin(kDenseRows), std::end(kDenseRows)},
    {"tower", std::begin(kTower), std::end(kTower)},
};

int64_t TimesOf(const std::vector<State>& states, const Expected& expected) {
  int64_t count = 0;
  for (const State& state : states) {
    if (state.what == expected.what && state.numbers == expected.numbers) count += state.count;
  }
  return count;
}

}  // namespace

bool ReportCoverage(const std::string& program, bool prints_all) {
  const std::vector<State> states = ReachedStates();
  std::vector<const Expected*> all;
  for (const Group& group : kGroups) {
    if (program != group.program) continue;
    for (const Expected* each = group.begin; each != group.end; ++each) all.push_back(each);
  }
  int num_reached = 0;
  int num_missed = 0;
  for (const Expected* each : all) {
    const int64_t count = TimesOf(states, *each);
    num_reached += count > 0 ? 1 : 0;
    if (prints_all) std::printf("%12lld  %s\n", static_cast<long long>(count), each->text);
    if (count > 0) continue;
    num_missed += each->test == nullptr ? 1 : 0;
    std::printf("  not reached: %s (%s)\n", each->text,
                each->test == nullptr ? "NO TEST IS KNOWN THAT DOES" : each->test);
  }
  for (const State& state : states) {
    const bool is_known = std::any_of(all.begin(), all.end(), [&](const Expected* each) {
      return state.what == each->what && state.numbers == each->numbers;
    });
    if (is_known) continue;
    ++num_missed;
    std::printf("  reached, and not in the list of coverage_report.cc: %s (%lld, %lld, %lld)\n",
                state.what.c_str(), static_cast<long long>(state.numbers[0]),
                static_cast<long long>(state.numbers[1]), static_cast<long long>(state.numbers[2]));
  }
  std::printf("%s: reached %d of %zu calls and transitions\n", program.c_str(), num_reached,
              all.size());
  return num_missed == 0;
}

}  // namespace condacc::explorer
