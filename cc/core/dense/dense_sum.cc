#include "cc/core/dense/dense_sum.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "cc/core/accumulator/saved_state.h"
#include "cc/core/base/invariant.h"

namespace condacc {

DenseSum::DenseSum(const SumOptions& options) : RoundSum(options) {
  pending_.Reserve(options.max_pending + 1);
  folding_.Reserve(options.max_pending + 1);
}

void DenseSum::Batch::Reserve(size_t capacity) {
  operands.reserve(capacity);
  buffers.reserve(capacity);
}

Status DenseSum::Check(const Gradient& gradient, const Shape* early) const {
  const Shape& expected = state_ != State::kEmpty ? shape_
                          : early != nullptr      ? *early
                                                  : options_.shape;
  if (expected.IsCompatibleWith(gradient.shape)) return Status();
  return Status(StatusCode::kInvalidArgument, "Shape mismatch: expected " + expected.ToString() +
                                                  ", got " + gradient.shape.ToString());
}

Missing DenseSum::MissingFrom(const Gradient& gradient, bool is_early) const {
  // An apply does not wait until an early gradient can be added, or until the sum has been saved.
  if (is_early && !gradient.owned) return Missing::kKeptCopy;
  if (is_saving_ && IsUrgent(gradient)) return Missing::kKeptCopy;
  if (state_ == State::kEmpty && !is_early)
    return gradient.owned || gradient.result_memory ? Missing::kNothing : Missing::kResultMemory;
  // A fold cannot allocate, so the gradient that is expected to cause one brings the memory for a
  // float32 sum. If the budget is exceeded only after this check, the next gradient brings it. A
  // take cannot allocate either, and may have to add all early gradients in several passes.
  const bool will_fold = is_early
                             ? static_cast<size_t>(options_.num_contributors) > options_.max_inputs
                             : IsUrgent(gradient) || IsFull(pending_.buffers.size() + 1);
  return !will_fold || HasRoomToAdd() || gradient.float32_memory ? Missing::kNothing
                                                                 : Missing::kFloat32Memory;
}

Status DenseSum::Supply(Missing missing, Workspace& workspace, Gradient* gradient) const {
  switch (missing) {
    case Missing::kKeptCopy:
      return CopyValues(workspace, gradient);
    case Missing::kResultMemory:
      return workspace.Allocate(options_.type, gradient->shape, &gradient->result_memory);
    default:
      return workspace.Allocate(ElementType::kFloat32, gradient->shape, &gradient->float32_memory);
  }
}

Appended DenseSum::Append(Gradient&& gradient) {
  CONDACC_INVARIANT(state_ != State::kEmpty || gradient.owned || gradient.result_memory);
  const Appended appended = IsUrgent(gradient) ? Appended::kMustAddNow : Appended::kPending;
  // A fold may be running, so only `pending_` is changed here, and not `folding_`.
  std::vector<Buffer>& buffers = pending_.buffers;
  if (state_ == State::kEmpty) SetShape(gradient.shape);
  if (buffers.size() == buffers.capacity()) pending_.Reserve(2 * buffers.size());
  total_weight_ += gradient.weight;
  if (!float32_sum_) float32_sum_ = std::move(gradient.float32_memory);
  if (state_ == State::kEmpty) {
    state_ = gradient.owned ? State::kInResult : State::kPending;
    result_ = std::move(gradient.owned ? gradient.values : gradient.result_memory);
    if (has_sum()) return Appended::kInSum;
  }
  buffers.push_back(std::move(gradient.values));
  Hold(GradientBytes());
  return appended;
}

bool DenseSum::IsFull(size_t num_pending) const {
  return num_pending >= options_.max_pending ||
         num_pending * GradientBytes() >= options_.max_pending_bytes ||
         options_.budget->IsExceeded();
}

Advice DenseSum::Advise(const NextTake& next_take) const {
  if (num_pending() == 0 || !CanFold()) return Advice::kLeave;
  const bool is_overfull = num_pending() >= 2 * options_.max_pending ||
                           (num_pending() > 1 && options_.budget->IsExceeded());
  if (is_overfull) return Advice::kMustFold;
  return WantsFold(next_take) ? Advice::kFold : Advice::kLeave;
}

bool DenseSum::WantsFold(const NextTake& next_take) const {
  // A fold would only copy a single borrowed gradient, so it is left where it is.
  if (options_.holds_borrowed && !has_sum() && num_pending() == 1) return false;
  if (next_take.num_missing == 0) return num_pending() > options_.max_pending;
  // A take of large gradients is faster if all but the last one have been added before that
  // arrives.
  constexpr size_t kLarge = 1 << 16;  // Elements.
  const bool lacks_one = next_take.is_waiting && next_take.num_missing == 1;
  if (lacks_one && options_.is_in_host_memory && num_elements_ >= kLarge) return true;
  // Small gradients are still in the cache when they arrive, so they are added now. That leaves
  // less to add for the take.
  return IsFull(num_pending()) || GradientBytes() <= options_.small_bytes;
}

int64_t DenseSum::BeginFold() noexcept {
  CONDACC_INVARIANT(num_pending() > 0 && CanFold() && folding_.buffers.empty());
  if (HasRoomToAdd()) {
    std::swap(pending_, folding_);
  } else {
    folding_.buffers.push_back(std::move(pending_.buffers.front()));
    pending_.buffers.erase(pending_.buffers.begin());
  }
  fold_ = Operands(&folding_);
  return static_cast<int64_t>(folding_.buffers.size());
}

void DenseSum::RunFold(Workspace& workspace) noexcept {
  // Append() may run at the same time, so only `fold_` and `folding_` are used here.
  workspace.Add(RunFirstPasses(fold_, workspace));
  NoteFailure(workspace);
  num_folded_ = folding_.buffers.size();
  folding_.buffers.clear();
}

bool DenseSum::EndFold() noexcept {
  Hold(-(GradientBytes() * num_folded_));
  state_ = fold_.out_is_float32 ? State::kInFloat32Sum : State::kInResult;
  return true;
}

Status DenseSum::PrepareFinish(std::vector<Gradient*> early, Workspace& /*workspace*/) {
  // A fold or a save may be running, so only members that these leave alone are used here.
  pending_.Reserve(num_pending() + early.size());
  if (state_ == State::kEmpty) SetShape(early[0]->shape);
  early_ = std::move(early);
  return Status();
}

Value DenseSum::Finish(Workspace& workspace) noexcept {
  CONDACC_INVARIANT(folding_.buffers.empty());
  for (Gradient* const gradient : early_) {
    total_weight_ += gradient->weight;
    if (state_ == State::kEmpty) {  // Nothing has come from the first contributor.
      state_ = State::kInResult;
      result_ = std::move(gradient->values);
    } else {
      pending_.buffers.push_back(std::move(gradient->values));
    }
  }
  early_.clear();
  DenseAddArgs last = RunFirstPasses(Operands(&pending_), workspace);
  last.out = result_.data();
  last.out_is_float32 = false;
  last.divisor = DivisorOf(options_.reduction, total_weight_);
  if (last.out != last.first || last.num_inputs > 0 || last.divisor != 1) {
    workspace.Add(last);
    NoteFailure(workspace);
  }
  return {Buffer(), std::move(result_), std::move(shape_), std::move(failure_)};
}

double DenseSum::BeginSave() {
  saved_operands_.clear();
  for (const Buffer& buffer : pending_.buffers) saved_operands_.push_back(buffer.data());
  if (state_ != State::kEmpty) save_ = ArgsFor(saved_operands_);
  is_saving_ = true;
  return total_weight_;
}

Status DenseSum::RunSave(Workspace& workspace, StateMemory& memory) {
  // Append() may run at the same time, so only members that it leaves alone are used here.
  if (!failure_.ok()) return failure_;
  SumMemory sum;
  Status status = memory.Allocate(shape_, &sum);
  Buffer on_device;
  const ElementType type = SumTypeOf(options_.type);
  if (status.ok() && !options_.is_in_host_memory) {
    status = workspace.Allocate(type, shape_, &on_device);
  }
  if (!status.ok()) return status;
  save_.out = on_device ? on_device.data() : sum.values;
  save_.out_is_float32 = SumsInFloat32(options_.type);
  workspace.Add(RunFirstPasses(save_, workspace));
  status = workspace.TakeFailure();
  if (!status.ok() || !on_device) return status;
  return workspace.CopyNow(on_device.data(), num_elements_ * SizeOf(type), sum.values);
}

Status DenseSum::Restore(const SavedSum& saved, Workspace& workspace) {
  CONDACC_INVARIANT(state_ == State::kEmpty);
  if (!options_.shape.IsCompatibleWith(saved.shape)) {
    return Status(StatusCode::kInvalidArgument,
                  "Shape mismatch: expected " + options_.shape.ToString() +
                      ", got a saved sum of shape " + saved.shape.ToString());
  }
  const bool sums_in_float32 = SumsInFloat32(options_.type);
  Status status = workspace.Allocate(options_.type, saved.shape, &result_);
  if (status.ok() && sums_in_float32) {
    status = workspace.Allocate(ElementType::kFloat32, saved.shape, &float32_sum_);
  }
  if (!status.ok()) return status;
  SetShape(saved.shape);
  total_weight_ = saved.total_weight;
  state_ = sums_in_float32 ? State::kInFloat32Sum : State::kInResult;
  const Buffer& sum = sums_in_float32 ? float32_sum_ : result_;
  return workspace.CopyNow(saved.values, num_elements_ * SizeOf(SumTypeOf(options_.type)),
                           sum.data());
}

void DenseSum::Clear() noexcept {
  Hold(-held_bytes_);
  pending_.buffers.clear();
  result_ = Buffer();
  float32_sum_ = Buffer();
  state_ = State::kEmpty;
  total_weight_ = 0;
  early_.clear();
  failure_ = Status();
}

DenseAddArgs DenseSum::Operands(Batch* batch) const noexcept {
  batch->operands.clear();
  for (const Buffer& buffer : batch->buffers) batch->operands.push_back(buffer.data());
  return ArgsFor(batch->operands);
}

DenseAddArgs DenseSum::ArgsFor(const std::vector<const void*>& operands) const noexcept {
  DenseAddArgs args;
  args.type = options_.type;
  args.num_elements = num_elements_;
  args.out = float32_sum_ ? float32_sum_.data() : result_.data();
  args.out_is_float32 = static_cast<bool>(float32_sum_);
  args.inputs = operands.data();
  args.num_inputs = operands.size();
  if (has_sum()) {
    args.first = state_ == State::kInFloat32Sum ? float32_sum_.data() : result_.data();
    args.first_is_float32 = state_ == State::kInFloat32Sum;
  } else {
    args.first = *args.inputs++;
    --args.num_inputs;
  }
  return args;
}

DenseAddArgs DenseSum::RunFirstPasses(DenseAddArgs args, Workspace& workspace) const noexcept {
  while (args.num_inputs > options_.max_inputs) {
    CONDACC_INVARIANT(args.out_is_float32 == SumsInFloat32(args.type));
    DenseAddArgs pass = args;
    pass.num_inputs = options_.max_inputs;
    workspace.Add(pass);
    args.first = pass.out;
    args.first_is_float32 = pass.out_is_float32;
    args.inputs += pass.num_inputs;
    args.num_inputs -= pass.num_inputs;
  }
  return args;
}

std::unique_ptr<RoundSum> NewDenseSum(const SumOptions& options) {
  return std::make_unique<DenseSum>(options);
}

}  // namespace condacc
