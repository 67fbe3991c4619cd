#include "tests/cc/explorer/fibers/strategy.h"

#include <algorithm>
#include <cstdint>

#include "tests/cc/explorer/fibers/random.h"

namespace condacc::explorer {
namespace {

// Programs draw from a generator with the seed itself, so the strategies use another stream.
constexpr uint64_t kOtherStream = 0x5363686564756c65;

class RandomStrategy final : public Strategy {
 public:
  explicit RandomStrategy(uint64_t seed) : random_(seed ^ kOtherStream) {
    constexpr int kPercents[] = {100, 60, 30, 10, 3};
    leave_percent_ = kPercents[random_.Below(std::size(kPercents))];
  }

  void Add(int /*fiber*/) override {}
  int Choose(const std::vector<int>& runnable, int current) override {
    if (current != kNone && random_.Below(100) >= leave_percent_) return current;
    return runnable[static_cast<size_t>(random_.Below(static_cast<int64_t>(runnable.size())))];
  }

 private:
  Random random_;
  int leave_percent_;
};

class PctStrategy final : public Strategy {
 public:
  PctStrategy(uint64_t seed, int64_t length) : random_(seed ^ kOtherStream) {
    for (int64_t& change : changes_) change = 1 + random_.Below(length);
  }

  void Add(int fiber) override {
    priorities_.resize(std::max(priorities_.size(), static_cast<size_t>(fiber) + 1));
    priorities_[static_cast<size_t>(fiber)] = kDepth + random_.Below(int64_t{1} << 40);
  }
  int Choose(const std::vector<int>& runnable, int /*current*/) override {
    ++num_points_;
    for (int64_t i = 0; i < kDepth - 1; ++i) {
      if (num_points_ == changes_[i]) PriorityOf(Highest(runnable)) = i;
    }
    return Highest(runnable);
  }

 private:
  static constexpr int kDepth = 3;

  int64_t& PriorityOf(int fiber) { return priorities_[static_cast<size_t>(fiber)]; }
  int Highest(const std::vector<int>& runnable) {
    return *std::max_element(runnable.begin(), runnable.end(),
                             [this](int a, int b) { return PriorityOf(a) < PriorityOf(b); });
  }

  Random random_;
  int64_t num_points_ = 0;
  int64_t changes_[kDepth - 1];  // The points at which a priority changes.
  std::vector<int64_t> priorities_;
};

}  // namespace

std::unique_ptr<Strategy> MakeStrategy(const ScheduleId& id) {
  if (id.strategy == StrategyKind::kRandom) return std::make_unique<RandomStrategy>(id.seed);
  return std::make_unique<PctStrategy>(id.seed, id.length);
}

}  // namespace condacc::explorer
