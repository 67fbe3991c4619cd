// Tests the lifetimes of memory on a GPU: several threads use one accumulator and one stream, whose
// memory is reused as soon as it is freed. And tests states of accumulators on a GPU. Values are
// small integers, so sums are exact.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/sparse/sparse_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/recorded_take.h"
#include "tests/cc/accumulator/saved_bytes.h"
#include "tests/cc/gpu/cuda_workspaces.h"
#include "tests/cc/gpu/gpu_support.h"

namespace condacc {
namespace {

constexpr int kThreads = 3;
constexpr int kApplies = 40;  // Number for each thread.
constexpr int64_t kNumRequired = 7;
constexpr int64_t kSize = 1001;  // Elements of a dense gradient.
constexpr int64_t kRows = 37;    // Rows of a sparse gradient.
constexpr int64_t kRange = 10;   // Number of different rows.
constexpr int64_t kWidth = 3;
constexpr int64_t kNeverStale = int64_t{1} << 60;

class Source;

// The memory of a gradient that the accumulator does not own.
struct Lent {
  Buffer rows, ones;
};

// The traits of the accumulators under test: how to make a gradient whose values are all 1 or, if a
// take is to refuse it, anything.
struct Dense {
  static Gradient NewGradient(Source& source, bool owned, bool bad, Lent* lent);
  static Accumulator::Options Options(HoldBudget* budget) {
    Accumulator::Options options;
    options.new_sum = NewDenseSum;
    options.sum.reduction = Reduction::kSum;
    options.sum.small_bytes = 0;
    options.sum.is_in_host_memory = false;
    options.sum.max_inputs = kMaxDenseInputs;
    options.sum.budget = budget;
    return options;
  }
  // Returns the sum of all elements, which must be equal, divided by the size of a gradient.
  static int64_t Total(const Value& value, CudaStream* stream) {
    const auto values = stream->Read<float>(value.values, value.shape.num_elements());
    EXPECT_EQ(values, std::vector<float>(values.size(), values[0]));
    return static_cast<int64_t>(values[0]);
  }
};

struct Sparse {
  static Gradient NewGradient(Source& source, bool owned, bool bad, Lent* lent);
  static Accumulator::Options Options(HoldBudget* budget) {
    Accumulator::Options options;
    options.new_sum = NewSparseSum<DeviceRows>;
    options.sum.shape = Shape::Of({kRange, kWidth});
    options.sum.reduction = Reduction::kSum;
    options.sum.fold_bytes = 8 * kRows * kWidth * sizeof(float);
    options.sum.budget = budget;
    return options;
  }
  static int64_t Total(const Value& value, CudaStream* stream) {
    const auto values = stream->Read<float>(value.values, value.shape.num_elements());
    int64_t total = 0;
    for (const float element : values) total += static_cast<int64_t>(element);
    EXPECT_EQ(total % (kRows * kWidth), 0);
    return total / (kRows * kWidth);
  }
};

// Gradients that are made on the stream, from buffers that live as long as the test.
class Source {
 public:
  explicit Source(CudaStream* stream) : stream_(*stream) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < kRows; ++i) rows.push_back(i * i % kRange);
    rows_ = stream_.CopyOf(rows);
    rows[5] = -1;
    bad_rows_ = stream_.CopyOf(rows);
    ones_ = stream_.CopyOf(std::vector<float>(kSize, 1.0f));
    garbage_ = stream_.CopyOf(std::vector<float>(kSize, -1e9f));
  }

  // Returns memory whose content is queued but not yet there.
  Buffer Ones(int64_t size) { return QueuedCopy(ones_, static_cast<size_t>(size) * sizeof(float)); }
  Buffer Rows(bool bad) { return QueuedCopy(bad ? bad_rows_ : rows_, kRows * sizeof(int64_t)); }
  // Writes other content to memory of the same size as gradients have, and frees it.
  void Litter() {
    for (const int64_t size : {kSize, kRows * kWidth, 2 * kRows}) {
      QueuedCopy(garbage_, static_cast<size_t>(size) * sizeof(float));
    }
  }

 private:
  Buffer QueuedCopy(const Buffer& from, size_t num_bytes) {
    Buffer buffer;
    if (!stream_.Allocate(num_bytes, &buffer).ok() ||
        !QueueCopy(from.data(), num_bytes, buffer.data(), stream_.get()).ok()) {
      return Buffer();
    }
    return buffer;
  }

  CudaStream& stream_;
  Buffer rows_, bad_rows_, ones_, garbage_;
};

// Returns the memory if the accumulator is to own it, and otherwise keeps it in `lent`.
Buffer OwnedOr(bool owned, Buffer memory, Buffer* lent) {
  if (owned) return memory;
  *lent = std::move(memory);
  return Buffer(lent->data(), nullptr, [](void*) {});
}

// Applies a gradient of ones, which is owned by the accumulator or by this call. Returns whether it
// was added.
template <class Kind>
bool Apply(Accumulator& accumulator, Source& source, bool owned, bool bad,
           CudaWorkspace& workspace) {
  Lent lent;
  Gradient gradient = Kind::NewGradient(source, owned, bad, &lent);
  return accumulator.Apply(kNeverStale, std::move(gradient), workspace).is_added();
}

Gradient Dense::NewGradient(Source& source, bool owned, bool /*bad*/, Lent* lent) {
  Gradient gradient;
  gradient.shape = Shape::Of({kSize});
  gradient.owned = owned;
  gradient.values = OwnedOr(owned, source.Ones(kSize), &lent->ones);
  return gradient;
}

Gradient Sparse::NewGradient(Source& source, bool owned, bool bad, Lent* lent) {
  Gradient gradient;
  gradient.indices_shape = Shape::Of({kRows});
  gradient.shape = Shape::Of({kRows, kWidth});
  gradient.owns_indices = gradient.owned = owned;
  gradient.indices = OwnedOr(owned, source.Rows(bad), &lent->rows);
  gradient.values = OwnedOr(owned, source.Ones(kRows * kWidth), &lent->ones);
  return gradient;
}

// The state of one thread. Another thread may complete its takes.
template <class Kind>
struct User {
  explicit User(CudaStream* stream) : workspace(stream) {}

  CudaWorkspace workspace;
  std::list<RecordedTake> takes;
  int num_added = 0;
};

template <class Kind>
class Users {
 public:
  explicit Users(CudaStream* stream) : stream_(*stream), source_(stream) {
    for (int i = 0; i < kThreads; ++i) users_.push_back(std::make_unique<User<Kind>>(stream));
  }

  // Has threads apply gradients, every `bad_every`th of which is bad, and take them at once.
  void Run(int bad_every) {
    std::vector<std::thread> threads;
    for (const auto& user : users_) {
      threads.emplace_back([&, this] { RunOne(user.get(), bad_every); });
    }
    for (std::thread& thread : threads) thread.join();
    while (accumulator_.num_accumulated() > 0) Request(users_[0].get(), 1);
  }

  // Requests a take that waits until there are enough gradients.
  void RequestToWait() {
    const auto& take = users_[0]->takes.emplace_back(kNumRequired);
    accumulator_.Request(take.ptr(), nullptr, users_[0]->workspace);
  }

  // Expects that all gradients that were added have been taken or, if `num_bad` of them were bad,
  // that at most so many rounds have been lost.
  void ExpectAllTaken(int64_t num_bad) {
    int64_t num_added = 0, num_taken = 0, num_failed = 0;
    for (const auto& user : users_) {
      num_added += user->num_added;
      for (const RecordedTake& take : user->takes) {
        EXPECT_EQ(take.num_completions(), 1);
        num_failed += take.status().code() == StatusCode::kInvalidArgument ? 1 : 0;
        if (take.status().ok()) num_taken += Kind::Total(take.value(), &stream_);
      }
    }
    EXPECT_EQ(num_added, kThreads * kApplies);
    EXPECT_GE(num_failed, num_bad > 0 ? 1 : 0);
    EXPECT_LE(num_failed, num_bad);
    EXPECT_GE(num_taken, 1);
    if (num_failed == 0) EXPECT_EQ(num_taken, num_added);
    EXPECT_LE(num_taken, num_added - num_bad);
  }

  Accumulator& accumulator() { return accumulator_; }
  Source& source() { return source_; }
  HoldBudget& budget() { return budget_; }
  User<Kind>& user() { return *users_[0]; }

 private:
  void RunOne(User<Kind>* user, int bad_every) {
    for (int i = 0; i < kApplies; ++i) {
      const bool bad = bad_every > 0 && i % bad_every == 1;
      if (Apply<Kind>(accumulator_, source_, i % 3 != 0, bad, user->workspace)) ++user->num_added;
      source_.Litter();
      if (i % 5 == 0) Request(user, kNumRequired);
      if (bad_every == 0 && i % 7 == 0) SavedBytes(accumulator_, user->workspace);
    }
  }
  void Request(User<Kind>* user, int64_t num_required) {
    user->takes.emplace_back(num_required);
    if (!accumulator_.TryServe(user->takes.back().ptr(), user->workspace)) {
      user->takes.pop_back();
    }
    source_.Litter();
  }

  CudaStream& stream_;
  Source source_;
  HoldBudget budget_{size_t{1} << 30};
  std::vector<std::unique_ptr<User<Kind>>> users_;
  Accumulator accumulator_{Kind::Options(&budget_)};
};

class AccumulatorGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (HasGpu()) stream_ = std::make_unique<CudaStream>();
  }

  template <class Kind>
  void CheckThreads(int bad_every, int64_t num_bad) {
    Users<Kind> users(stream_.get());
    users.RequestToWait();
    users.Run(bad_every);
    users.ExpectAllTaken(num_bad);
    EXPECT_EQ(users.budget().num_held(), 0u);
  }

  // Gradients, a round and what was taken are freed while work on them is still queued.
  template <class Kind>
  void CheckThatNothingIsWaitedFor() {
    const RecordedTake taken(5);
    {
      Users<Kind> users(stream_.get());
      for (int i = 0; i < 30; ++i) {
        EXPECT_TRUE(Apply<Kind>(users.accumulator(), users.source(), i % 2 == 0, false,
                                users.user().workspace));
        users.source().Litter();
        if (i == 9) {
          EXPECT_EQ(users.accumulator().Reset(0), 10);
        }
      }
      EXPECT_TRUE(users.accumulator().TryServe(taken.ptr(), users.user().workspace));
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(
            Apply<Kind>(users.accumulator(), users.source(), true, false, users.user().workspace));
      }
    }
    EXPECT_EQ(Kind::Total(taken.value(), stream_.get()), 20);
  }

  // A round that is saved, goes on and is restored is that which was saved.
  template <class Kind>
  void CheckStates() {
    Users<Kind> users(stream_.get());
    const auto apply = [&](int count) {
      for (int i = 0; i < count; ++i) {
        ASSERT_TRUE(Apply<Kind>(users.accumulator(), users.source(), i % 2 == 0, false,
                                users.user().workspace));
        users.source().Litter();
      }
    };
    apply(13);
    const std::string bytes = SavedBytes(users.accumulator(), users.user().workspace);
    apply(3);
    EXPECT_TRUE(RestoreBytes(bytes, users.accumulator(), users.user().workspace).ok());
    users.source().Litter();
    EXPECT_EQ(SavedBytes(users.accumulator(), users.user().workspace), bytes);
    apply(4);
    const RecordedTake taken(17);
    EXPECT_TRUE(users.accumulator().TryServe(taken.ptr(), users.user().workspace));
    EXPECT_EQ(Kind::Total(taken.value(), stream_.get()), 17);
  }

  std::unique_ptr<CudaStream> stream_;
};

TEST_F(AccumulatorGpuTest, DenseStatesAreContinued) { CheckStates<Dense>(); }

TEST_F(AccumulatorGpuTest, SparseStatesAreContinued) { CheckStates<Sparse>(); }

TEST_F(AccumulatorGpuTest, DenseSumsOfManyThreadsAreRight) { CheckThreads<Dense>(0, 0); }

TEST_F(AccumulatorGpuTest, SparseSumsOfManyThreadsAreRight) { CheckThreads<Sparse>(0, 0); }

TEST_F(AccumulatorGpuTest, OneTakeFailsForEachLostRoundOfManyThreads) {
  CheckThreads<Sparse>(/*bad_every=*/kApplies, kThreads);
}

TEST_F(AccumulatorGpuTest, ADenseAccumulatorMayEndBeforeItsWork) {
  CheckThatNothingIsWaitedFor<Dense>();
}

TEST_F(AccumulatorGpuTest, ASparseAccumulatorMayEndBeforeItsWork) {
  CheckThatNothingIsWaitedFor<Sparse>();
}

// More are pending than the kernel adds at once, because the fold is stopped meanwhile.
TEST_F(AccumulatorGpuTest, MoreGradientsThanOnePassAddsAreAddedInSeveral) {
  constexpr int kCount = 2 * static_cast<int>(kMaxDenseInputs) + 9;
  Source source(stream_.get());
  CudaWorkspace workspace(stream_.get());
  HoldBudget budget(size_t{1} << 30);
  Accumulator::Options options = Dense::Options(&budget);
  options.sum.max_pending = kCount;
  Accumulator accumulator(options);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_TRUE(Apply<Dense>(accumulator, source, /*owned=*/true, /*bad=*/false, workspace));
  }
  const RecordedTake taken(kCount);
  EXPECT_TRUE(accumulator.TryServe(taken.ptr(), workspace));
  ASSERT_TRUE(taken.is_served());
  EXPECT_EQ(Dense::Total(taken.value(), stream_.get()), kCount);
}

}  // namespace
}  // namespace condacc
