#include "tests/cc/fuzz/calls.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/float16.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/sparse/sparse_sum.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/recorded_take.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {
namespace {

// All values are small integers, so that every sum is exact in every data type and in any order.
using Row = std::vector<double>;

// Ends the calls.
struct Difference {
  std::string what;
};

// The text is made only if it is needed: most of the time would go into it otherwise.
void Check(bool is_right, const char* what, const std::string& detail = "") {
  if (!is_right) throw Difference{what + detail};
}

// Numbers that are read from bytes; zeros after the last byte.
class Source {
 public:
  Source(const uint8_t* bytes, size_t size) : next_(bytes), end_(bytes + size) {}

  bool is_empty() const { return next_ == end_; }
  uint8_t Byte() { return is_empty() ? 0 : *next_++; }
  // Returns a number from 0 to `count` - 1.
  int Below(int count) { return Byte() % count; }

 private:
  const uint8_t* next_;
  const uint8_t* end_;
};

// Writes and reads elements of a type.
void Store(ElementType type, double value, void* to, size_t i) {
  switch (type) {
    case ElementType::kFloat16:
      static_cast<Float16*>(to)[i] = Float16::FromFloat(static_cast<float>(value));
      return;
    case ElementType::kFloat64:
      static_cast<double*>(to)[i] = value;
      return;
    case ElementType::kInt64:
      static_cast<int64_t*>(to)[i] = static_cast<int64_t>(value);
      return;
    default:
      static_cast<float*>(to)[i] = static_cast<float>(value);
  }
}

double Load(ElementType type, const void* from, size_t i) {
  switch (type) {
    case ElementType::kFloat16:
      return Float16::ToFloat(static_cast<const Float16*>(from)[i]);
    case ElementType::kFloat64:
      return static_cast<const double*>(from)[i];
    case ElementType::kInt64:
      return static_cast<double>(static_cast<const int64_t*>(from)[i]);
    default:
      return static_cast<const float*>(from)[i];
  }
}

// Returns the quotient as an accumulator rounds it.
double Divided(ElementType type, double sum, double divisor) {
  switch (type) {
    case ElementType::kFloat16:
      return Float16::ToFloat(
          Float16::FromFloat(static_cast<float>(sum) / static_cast<float>(divisor)));
    case ElementType::kFloat32:
      return static_cast<float>(sum) / static_cast<float>(divisor);
    default:
      return sum / divisor;
  }
}

// The sums of a round, each of which has a weight. A dense gradient is one row with the index 0.
struct ModelRound {
  struct Sum {
    Row values;
    double weight = 0;
    int64_t last = -1;  // The last gradient that has the row.
  };
  std::map<int64_t, Sum> sums;
  double weight = 0;
  int64_t count = 0;
  std::set<int64_t> contributors;

  void Add(const std::vector<int64_t>& indices, const std::vector<Row>& rows, double by) {
    for (size_t i = 0; i < indices.size(); ++i) {
      Sum& sum = sums[indices[i]];
      sum.values.resize(rows[i].size());
      for (size_t k = 0; k < rows[i].size(); ++k) sum.values[k] += rows[i][k];
      if (sum.last != count) sum.weight += by;
      sum.last = count;
    }
    weight += by;
    ++count;
  }
};

struct ModelTake {
  std::unique_ptr<RecordedTake> real;
  int64_t num_required;
  std::optional<ModelRound> value;  // What it has taken.
  bool is_cancelled = false;
};

// A state, and what the model had then.
struct SavedModel {
  struct alignas(64) Block {
    char bytes[64];
  };
  std::vector<Block> blocks;
  size_t num_bytes = 0;
  ModelRound round;
  int64_t step = 0;
  int64_t num_dropped = 0;
};

class Calls {
 public:
  explicit Calls(Source source) : source_(source) {
    is_sparse_ = source_.Below(4) > 0;
    const ElementType types[] = {ElementType::kFloat32, ElementType::kFloat16,
                                 ElementType::kFloat64, ElementType::kInt64};
    options_.sum.type = types[source_.Below(4)];
    const Reduction reductions[] = {Reduction::kMean, Reduction::kSum, Reduction::kGlobalMean};
    options_.sum.reduction = reductions[source_.Below(is_sparse_ ? 3 : 2)];
    if (is_integer()) options_.sum.reduction = Reduction::kSum;
    width_ = source_.Below(6);
    num_rows_ = 1 + source_.Below(40);
    if (source_.Below(2) == 0) {
      options_.sum.shape = is_sparse_ ? Shape::Of({num_rows_, width_}) : Shape::Of({width_});
    }
    options_.new_sum = is_sparse_ ? NewSparseSum<HostRows> : NewDenseSum;
    options_.sum.fold_bytes = source_.Below(3) == 0 ? 1 << 20 : 1;
    options_.sum.small_bytes = source_.Below(2) == 0 ? 0 : 1 << 10;
    options_.sum.max_pending = 1 + static_cast<size_t>(source_.Below(8));
    options_.sum.holds_borrowed = source_.Below(2) == 0;
    const int kind = source_.Byte();
    budget_ = std::make_unique<HoldBudget>(size_t{1} << (kind % 20));
    if (kind / 20 % 4 == 3) options_.sum.num_contributors = kMaxContributors;
    options_.sum.budget = budget_.get();
    accumulator_ = std::make_unique<Accumulator>(options_);
  }

  void Run() {
    while (!source_.is_empty()) {
      switch (source_.Below(16)) {
        case 0:
        case 1:
          Request();
          break;
        case 2:
          TryTake();
          break;
        case 3:
          Cancel();
          break;
        case 4:
          SetStep();
          break;
        case 5:
          Reset();
          break;
        case 6:
          workspace_.RefuseAllocation(source_.Below(4));
          break;
        case 7:
          Save();
          break;
        case 8:
          Restore();
          break;
        default:
          Apply();
      }
      Compare();
    }
    for (const auto& take : takes_) accumulator_->Cancel(take->real->ptr(), workspace_);
  }

 private:
  static constexpr int kMaxContributors = 4;

  bool is_ordered() const { return options_.sum.in_order_of_contributors(); }
  bool is_integer() const { return options_.sum.type == ElementType::kInt64; }

  void Apply() {
    const int kind = source_.Byte();
    std::vector<int64_t> indices;
    const int num_rows = is_sparse_ ? source_.Below(8) : 1;
    for (int i = 0; i < num_rows; ++i) {
      indices.push_back(is_sparse_ ? source_.Below(num_rows_) : 0);
    }
    if (kind % 2 == 0) {
      std::sort(indices.begin(), indices.end());
      indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    }
    double weight = 1;
    if (!is_integer() && kind % 4 == 1) weight = source_.Below(3);
    std::vector<Row> rows(indices.size());
    for (Row& row : rows) {
      for (int k = 0; k < width_; ++k) row.push_back(weight * (source_.Below(9) - 4));
    }
    const bool is_bad = kind % 16 == 3;
    int64_t step = accumulator_->global_step();
    if (kind % 16 == 5) step -= step == std::numeric_limits<int64_t>::min() ? 0 : 1;
    if (kind % 16 == 7) step += step == std::numeric_limits<int64_t>::max() ? 0 : 1;
    std::optional<int64_t> contributor;
    if (kind % 8 == 6) {
      contributor = source_.Below(kMaxContributors);
    } else if (is_ordered() && kind / 16 < 14) {  // Some have no contributor, or one too high.
      contributor = kind / 16 % (kMaxContributors + 1);
    }

    Gradient gradient = GradientOf(indices, rows, /*owned=*/kind % 3 == 0, is_bad);
    if (gradient.weight >= 0) gradient.weight = weight;
    const ApplyResult result =
        accumulator_->Apply(step, By(contributor, std::move(gradient)), workspace_);
    // Nothing refers to borrowed memory any more, unless it was to be held.
    if (is_sparse_ || !options_.sum.holds_borrowed) borrowed_.clear();
    NoteApplied(result, step, contributor, is_bad, indices, rows, weight);
  }

  void NoteApplied(const ApplyResult& result, int64_t step, std::optional<int64_t> contributor,
                   bool is_bad, const std::vector<int64_t>& indices, const std::vector<Row>& rows,
                   double weight) {
    if (is_ordered() && contributor.value_or(kMaxContributors) >= kMaxContributors) {
      Check(result.status().code() == StatusCode::kInvalidArgument, "a wrong contributor");
      return;
    }
    if (step < step_) {
      Check(result.ok() && result.outcome() == ApplyOutcome::kStale, "a stale gradient");
      ++num_dropped_;
      return;
    }
    if (contributor.has_value() && step > step_) {
      Check(result.ok() && result.outcome() == ApplyOutcome::kAhead, "a gradient ahead");
      return;
    }
    // Some bad gradients are refused before their contributor is looked up.
    if (is_bad && result.status().code() == StatusCode::kInvalidArgument) return;
    if (contributor.has_value() && round_.contributors.count(*contributor) > 0) {
      Check(result.ok() && result.outcome() == ApplyOutcome::kDuplicate, "a duplicate");
      return;
    }
    if (!result.ok()) {
      const StatusCode code = result.status().code();
      Check(code == StatusCode::kResourceExhausted || is_bad,
            "an error of an apply: ", result.status().message());
      return;
    }
    Check(!is_bad && result.outcome() == ApplyOutcome::kAdded, "a gradient that is added");
    if (contributor.has_value()) round_.contributors.insert(*contributor);
    round_.Add(indices, rows, weight);
    Serve();
  }

  // Returns a gradient, in memory of its own or in `borrowed_`. If `is_bad`, it does not fit.
  Gradient GradientOf(const std::vector<int64_t>& indices, const std::vector<Row>& rows, bool owned,
                      bool is_bad) {
    const auto type = options_.sum.type;
    Gradient gradient;
    gradient.owned = gradient.owns_indices = owned;
    gradient.values = NewBuffer(indices.size() * width_ * SizeOf(type), owned);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int k = 0; k < width_; ++k) {
        Store(type, rows[i][k], gradient.values.data(), i * width_ + k);
      }
    }
    const auto size = static_cast<int64_t>(indices.size());
    if (!is_sparse_) {
      gradient.shape = is_bad ? Shape::Of({width_, 2, 3}) : Shape::Of({width_});
      if (is_bad && options_.sum.shape == Shape::UnknownRank()) gradient.weight = -1;
      return gradient;
    }
    gradient.shape = Shape::Of({size, width_});
    gradient.indices_shape = Shape::Of({is_bad ? size + 1 : size});
    gradient.indices_are_int32 = size % 2 == 1;
    gradient.indices = NewBuffer(indices.size() * sizeof(int64_t), owned);
    for (size_t i = 0; i < indices.size(); ++i) {
      if (gradient.indices_are_int32) {
        static_cast<int32_t*>(gradient.indices.data())[i] = static_cast<int32_t>(indices[i]);
      } else {
        static_cast<int64_t*>(gradient.indices.data())[i] = indices[i];
      }
    }
    return gradient;
  }

  Buffer NewBuffer(size_t num_bytes, bool owned) {
    if (owned) return TestBuffer::Owning(num_bytes);
    borrowed_.emplace_back(num_bytes + 1);
    return TestBuffer::Borrowing(borrowed_.back().data());
  }

  void Request() {
    auto take = std::make_unique<ModelTake>();
    take->num_required = source_.Below(6);
    take->real = std::make_unique<RecordedTake>(take->num_required);
    accumulator_->Request(take->real->ptr(), nullptr, workspace_);
    if (take->num_required < 1 || (is_ordered() && take->num_required > kMaxContributors)) {
      Check(take->real->status().code() == StatusCode::kInvalidArgument, "a take of no gradients");
      return;
    }
    takes_.push_back(std::move(take));
    waiting_.push_back(takes_.back().get());
    Serve();
  }

  void TryTake() {
    auto take = std::make_unique<ModelTake>();
    take->num_required = 1 + source_.Below(4);
    take->real = std::make_unique<RecordedTake>(take->num_required);
    const bool is_served = accumulator_->TryServe(take->real->ptr(), workspace_);
    const bool can_serve = waiting_.empty() && round_.count >= take->num_required;
    Check(is_served == can_serve, "whether a take is served at once");
    if (!is_served) return;
    takes_.push_back(std::move(take));
    waiting_.push_back(takes_.back().get());
    Serve();
  }

  void Cancel() {
    if (takes_.empty()) return;
    ModelTake* const take = takes_[source_.Below(static_cast<int>(takes_.size()))].get();
    accumulator_->Cancel(take->real->ptr(), workspace_);
    const auto found = std::find(waiting_.begin(), waiting_.end(), take);
    if (found == waiting_.end()) return;
    waiting_.erase(found);
    Check(take->real->status().code() == StatusCode::kCancelled, "a cancelled take");
    Serve();
  }

  void SetStep() {
    const int64_t steps[] = {0, 1, 2, 1000, -5, std::numeric_limits<int64_t>::max() - 1};
    const int64_t step = steps[source_.Below(6)];
    Check(accumulator_->SetGlobalStep(step) == step_, "the previous global step");
    step_ = step;
  }

  void Reset() {
    const int64_t step = source_.Below(10);
    const bool only_forward = source_.Below(2) == 0;
    const int64_t discarded = accumulator_->Reset(step, only_forward);
    if (only_forward && step <= step_) {
      Check(discarded == 0, "a reset that does not advance");
      return;
    }
    Check(discarded == round_.count, "how many gradients a reset discards");
    round_ = ModelRound();
    step_ = step;
  }

  // A save changes nothing, and fails only for lack of memory.
  void Save() {
    auto saved = std::make_unique<SavedModel>();
    saved->round = round_;
    saved->step = step_;
    saved->num_dropped = num_dropped_;
    const Status status = accumulator_->Save(workspace_, [&](size_t num_bytes, char** memory) {
      saved->blocks.resize(num_bytes / sizeof(SavedModel::Block) + 1);
      saved->num_bytes = num_bytes;
      *memory = saved->blocks[0].bytes;
      return Status();
    });
    if (status.ok()) return saved_.push_back(std::move(saved));
    Check(status.code() == StatusCode::kResourceExhausted, "a save: ", status.message());
  }

  void Restore() {
    if (saved_.empty()) return;
    const SavedModel& saved = *saved_[source_.Below(static_cast<int>(saved_.size()))];
    Status status;
    try {
      status = accumulator_->Restore(saved.blocks[0].bytes, saved.num_bytes, workspace_);
    } catch (const std::bad_alloc&) {
      return;
    }
    if (!status.ok()) {
      Check(status.code() == StatusCode::kResourceExhausted, "a restore: ", status.message());
      return;
    }
    round_ = saved.round;
    step_ = saved.step;
    num_dropped_ = saved.num_dropped;
    Serve();
  }

  // Serves the takes that have enough gradients, as the accumulator has done. A take that memory
  // was refused to has failed, and the gradients are still there.
  void Serve() {
    while (!waiting_.empty() && round_.count >= waiting_.front()->num_required) {
      ModelTake* const take = waiting_.front();
      waiting_.pop_front();
      Check(take->real->num_completions() == 1, "a take that has enough has ended once");
      const Status status = take->real->status();
      if (status.code() == StatusCode::kResourceExhausted) continue;
      if (step_ == std::numeric_limits<int64_t>::max()) {
        Check(status.code() == StatusCode::kOutOfRange, "a take after the last step");
        continue;
      }
      Check(status.ok(), "a take: ", status.message());
      CheckValue(take->real->value());
      round_ = ModelRound();
      ++step_;
    }
    for (const ModelTake* take : waiting_) {
      Check(take->real->num_completions() == 0, "a take that waits has not ended");
    }
  }

  void CheckValue(const Value& value) const {
    Check(value.failure.ok(), "a value: ", value.failure.message());
    const auto type = options_.sum.type;
    const auto num_rows = is_sparse_ ? static_cast<int64_t>(round_.sums.size()) : 1;
    if (is_sparse_) {
      Check(value.shape.rank() >= 1 && value.shape.dim(0) == num_rows, "the number of rows");
    }
    if (num_rows > 0) Check(value.shape.num_elements() == num_rows * width_, "the size of a value");
    size_t i = 0;
    for (const auto& [index, sum] : round_.sums) {
      if (is_sparse_) {
        Check(static_cast<const int64_t*>(value.indices.data())[i] == index, "an index");
      }
      double divisor = options_.sum.reduction == Reduction::kMean ? sum.weight : round_.weight;
      if (options_.sum.reduction == Reduction::kSum || divisor == 0) divisor = 1;
      for (int k = 0; k < width_; ++k) {
        const double expected = Divided(type, sum.values[k], divisor);
        const double got = Load(type, value.values.data(), i * width_ + k);
        if (got == expected) continue;
        Check(false, "row ",
              std::to_string(index) + " has " + std::to_string(got) + " instead of " +
                  std::to_string(expected));
      }
      ++i;
    }
  }

  void Compare() const {
    Check(accumulator_->global_step() == step_, "the global step");
    Check(accumulator_->num_accumulated() == round_.count, "the number of gradients");
    Check(accumulator_->num_dropped() == num_dropped_, "the number of dropped gradients");
  }

  Source source_;
  bool is_sparse_;
  int width_;
  int num_rows_;
  std::unique_ptr<HoldBudget> budget_;
  Accumulator::Options options_;
  TestWorkspace workspace_;
  std::unique_ptr<Accumulator> accumulator_;
  std::deque<std::vector<char>> borrowed_;
  ModelRound round_;
  int64_t step_ = 0;
  int64_t num_dropped_ = 0;
  std::vector<std::unique_ptr<ModelTake>> takes_;
  std::deque<ModelTake*> waiting_;
  std::vector<std::unique_ptr<SavedModel>> saved_;
};

}  // namespace

std::string DifferenceIn(const uint8_t* bytes, size_t size) {
  const int64_t num_live = TestBuffer::num_live();
  try {
    Calls(Source(bytes, size)).Run();
    Check(TestBuffer::num_live() == num_live, "buffers that nobody has released");
  } catch (const Difference& difference) {
    return difference.what;
  }
  return "";
}

}  // namespace condacc
