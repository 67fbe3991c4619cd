// Makes operator new fail at each place where an accumulator or a gate calls it that is the first
// one of its process to use timers. Must come before the other tests: each try is made in a child
// of this process, which must not have used them.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/sync/sync_gate.h"
#include "gtest/gtest.h"
#include "tests/cc/base/child_process.h"
#include "tests/cc/base/failing_new.h"
#include "tests/cc/dense/dense_support.h"
#include "tests/cc/sync/sync_gate_support.h"

namespace condacc {
namespace {

// An accumulator, and a take of one gradient.
struct FirstTake {
  explicit FirstTake(std::chrono::milliseconds stall_timeout)
      : accumulator([&] {
          auto options = OptionsOf<float>(/*mean=*/false);
          options.stall_timeout = stall_timeout;
          options.on_stall = [](const StallReport&) {};
          return options;
        }()) {}

  void Apply() { (void)accumulator.Apply(0, Owned(std::vector<float>{1}), workspace); }
  void Request() { accumulator.Request(take.ptr(), nullptr, workspace); }
  // Returns whether nothing was done to the take, and `num_gradients` are accumulated.
  bool IsAsBefore(int64_t num_gradients) const {
    return !take.is_done() && accumulator.num_accumulated() == num_gradients;
  }
  bool IsServedOnce() const {
    return take.num_completions() == 1 && take.is_served() && take.values<float>()[0] == 1 &&
           accumulator.num_accumulated() == 0;
  }

  TestWorkspace workspace;
  Accumulator accumulator;
  DenseTake take{1};
};

bool ATakeIsServedAtOnce(int ordinal) {
  FirstTake first(std::chrono::hours(1));
  first.Apply();
  if (ThrowsAt(ordinal, [&] { first.Request(); })) {
    if (!first.IsAsBefore(1)) return false;
    first.Request();
  }
  return first.IsServedOnce();
}

bool ATakeWaits(int ordinal) {
  FirstTake first(std::chrono::hours(1));
  if (ThrowsAt(ordinal, [&] { first.Request(); })) {
    if (!first.IsAsBefore(0)) return false;
    first.Request();
  }
  first.Apply();
  return first.IsServedOnce();
}

// Without reports of stalls, the apply that serves the take is the first to use timers.
bool AnApplyServesATake(int ordinal) {
  FirstTake first(std::chrono::milliseconds::zero());
  first.Request();
  if (ThrowsAt(ordinal, [&] { first.Apply(); })) {
    if (!first.IsAsBefore(0)) return false;
    first.Apply();
  }
  return first.IsServedOnce();
}

bool AWorkerWaitsAtAGate(int ordinal) {
  const std::shared_ptr<SyncGate> gate = NewGate();
  const int64_t round = Open(gate.get(), 2, 2, "c", std::chrono::hours(1));
  Worker other(gate, "v");
  Worker worker(gate, "w");
  other.round = worker.round = round;
  if (!other.Claim() || !worker.Claim()) return false;
  worker.step->Done(true);
  int num_ends = 0;
  const auto wait = std::make_shared<GateWait>(GateWait::For::kNextRound, worker.name, worker.run,
                                               round, [&](const GateWait&) { ++num_ends; });
  const bool threw = ThrowsAt(ordinal, [&] { gate->Wait(wait); });
  return gate->Close({"c"}).ok() && num_ends == (threw ? 0 : 1);
}

#if !defined(__SANITIZE_THREAD__)  // It does not support threads that begin after a fork().

TEST(FirstUseOfTimers, WithoutMemoryFailsBeforeAnythingChangesOrDoesWithoutIt) {
  constexpr int kManyAllocations = 16;  // More than any call makes.
  const std::pair<std::string, bool (*)(int)> uses[] = {
      {"a take is served at once", ATakeIsServedAtOnce},
      {"a take waits", ATakeWaits},
      {"an apply serves a take", AnApplyServesATake},
      {"a worker waits at a gate", AWorkerWaitsAtAGate}};
  for (const auto& [name, is_right] : uses) {
    for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
      EXPECT_TRUE(HoldsInAChild([&, use = is_right] { return use(ordinal); }))
          << name << ", allocation " << ordinal;
    }
  }
}

#endif

}  // namespace
}  // namespace condacc
