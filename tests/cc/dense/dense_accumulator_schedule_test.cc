// Tests random schedules: the test decides when a call begins and when each of its sums may run.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/dense/dense_support.h"
#include "tests/cc/dense/stopping_workspace.h"

namespace condacc {
namespace {

// Gradient number i is 2^i, so that a sum shows which gradients it consists of.
class Schedule {
 public:
  Schedule(uint32_t seed, size_t size) : random_(seed), size_(size) {}

  void Run(int num_actions) {
    for (int i = 0; i < num_actions; ++i) {
      switch (random_() % 10) {
        case 0:
        case 1:
          StartRequest();
          break;
        case 2:
          random_() % 8 == 0 ? StartReset() : StartCancel();
          break;
        case 3:
        case 4:
        case 5:
          LetOneThrough();
          break;
        default:
          if (num_gradients_ < 62) StartApply();
      }
    }
    // Takes that wait need no thread. All other calls run to their end now.
    for (Call& call : calls_) call.stop.Open();
    for (Call& call : calls_) call.thread.join();
    Check();
  }

 private:
  struct Call {
    StopPoint stop;
    StoppingWorkspace workspace{&stop};
    std::vector<int64_t> values;
    std::thread thread;
  };

  template <typename Body>
  void Start(Body body) {
    Call& call = calls_.emplace_back();
    call.thread = std::thread([&call, body] { body(call); });
    // The call often runs all the way to a sum or to its end, and sometimes hardly at all.
    for (uint32_t i = random_() % 40; i > 0; --i) std::this_thread::yield();
  }

  void StartApply() {
    const int64_t value = int64_t{1} << num_gradients_++;
    const bool owned = random_() % 3 != 0;
    Start([this, value, owned](Call& call) {
      call.values.assign(size_, value);
      Gradient gradient = owned ? Owned(call.values) : Borrowed(&call.values);
      EXPECT_TRUE(accumulator_.Apply(1000, std::move(gradient), call.workspace).is_added());
      EXPECT_EQ(call.values, std::vector<int64_t>(size_, value)) << "was written to";
      call.values.assign(size_, int64_t{1} << 62);  // This would show in a sum that reads it now.
    });
  }

  void StartRequest() {
    DenseTake& take = takes_.emplace_back(1 + static_cast<int64_t>(random_() % 12));
    const bool may_wait = random_() % 3 != 0;
    Start([this, &take, may_wait](Call& call) {
      if (may_wait) {
        accumulator_.Request(take.ptr(), nullptr, call.workspace);
      } else {
        accumulator_.TryServe(take.ptr(), call.workspace);
      }
    });
  }

  void StartCancel() {
    if (takes_.empty()) return;
    DenseTake& take = takes_[random_() % takes_.size()];
    Start([this, &take](Call& call) { accumulator_.Cancel(take.ptr(), call.workspace); });
  }

  void StartReset() {
    Start([this](Call&) {
      num_discarded_ += accumulator_.Reset(accumulator_.global_step());
      ++num_resets_;
    });
  }

  void LetOneThrough() {
    if (calls_.empty()) return;
    calls_[random_() % calls_.size()].stop.LetOneThrough();
  }

  // Half of the accumulators add gradients as they arrive.
  Accumulator::Options RandomOptions() {
    auto options = OptionsOf<int64_t>(/*mean=*/false, &budget_);
    if (random_() % 2 == 0) options.sum.small_bytes = size_ * sizeof(int64_t);
    return options;
  }

  static int NumGradients(int64_t sum) { return __builtin_popcountll(static_cast<uint64_t>(sum)); }

  void Check() {
    TestWorkspace workspace;
    for (DenseTake& take : takes_) accumulator_.Cancel(take.ptr(), workspace);
    const int64_t num_left = accumulator_.num_accumulated();
    if (num_left > 0) {
      DenseTake& rest = takes_.emplace_back(num_left);
      EXPECT_TRUE(accumulator_.TryServe(rest.ptr(), workspace));
    }
    int64_t seen = 0;
    int64_t num_served = 0;
    for (const DenseTake& take : takes_) {
      EXPECT_LE(take.num_completions(), 1);
      if (!take.is_served()) continue;
      ++num_served;
      const std::vector<int64_t> values = take.values<int64_t>();
      const int64_t sum = values[0];
      EXPECT_EQ(values, std::vector<int64_t>(size_, sum));
      EXPECT_GE(NumGradients(sum), take.ptr()->num_required);
      EXPECT_EQ(seen & sum, 0) << "some gradient was taken twice";
      seen |= sum;
    }
    EXPECT_EQ(NumGradients(seen) + num_discarded_, num_gradients_) << "some gradient was lost";
    if (num_resets_ == 0) {
      EXPECT_EQ(accumulator_.global_step(), num_served);
    }
    EXPECT_EQ(budget_.num_held(), 0u);
  }

  std::mt19937 random_;
  const size_t size_;
  HoldBudget budget_{size_ * sizeof(int64_t) * (3 + random_() % 20)};
  Accumulator accumulator_{RandomOptions()};
  int num_gradients_ = 0;
  std::atomic<int64_t> num_discarded_{0}, num_resets_{0};
  std::deque<DenseTake> takes_;
  std::deque<Call> calls_;
};

void RunSchedules(int count, size_t size) {
  std::random_device random;
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const uint32_t seed = random();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int64_t num_live = TestBuffer::num_live();
    Schedule(seed, size).Run(90);
    EXPECT_EQ(TestBuffer::num_live(), num_live);
  }
}

TEST(ScheduleTest, SmallGradientsAreCountedExactlyOnce) { RunSchedules(100, 3); }
TEST(ScheduleTest, BigGradientsAreCountedExactlyOnce) { RunSchedules(2, kBigSize); }

}  // namespace
}  // namespace condacc
