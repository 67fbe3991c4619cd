// Saving and restoring of an accumulator's state.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/accumulator/index_span.h"
#include "cc/core/accumulator/saved_state.h"

namespace condacc {
namespace {

// Copies saved values to memory of their own.
Status CopyOf(ElementType type, const char* values, const Shape& shape, Workspace& workspace,
              Buffer* copy) {
  const Status status = workspace.Allocate(type, shape, copy);
  return status.ok() ? workspace.CopyNow(values, NumBytes(type, shape), copy->data()) : status;
}

}  // namespace

Status Accumulator::Save(Workspace& workspace, StateMemory::Allocator allocate) {
  SavedState state;
  Call call(&mu_, workspace);
  while (round_->work != Work::kNone) changed_.Wait(&mu_);
  const RoundPtr round = round_;
  state.global_step = step_counter_.global_step();
  state.num_dropped = step_counter_.num_dropped();
  state.last_dropped_step = step_counter_.last_dropped_step();
  const bool has_gradients = round->num_accumulated() > 0;
  Status status;
  if (has_gradients) {
    AppendReady();
    state.contributors.assign(round->contributors.begin(), round->contributors.end());
    for (const auto& [contributor, gradient] : round->early.gradients()) {
      state.early.push_back({gradient.shape,
                             reinterpret_cast<const char*>(gradient.index_span.data),
                             static_cast<const char*>(gradient.values.data()), gradient.index_bound,
                             contributor, gradient.weight});
    }
    state.sum.num_gradients = round->num_appended;
    state.sum.total_weight = round->sum->BeginSave();
    round->work = Work::kSaving;
  }
  {
    MutexUnlock unlock(&mu_);
    status = WriteRound(*round->sum, &state, workspace, allocate);
  }
  if (has_gradients) {
    round->sum->EndSave();
    EndWork(round, &call);
    // Gradients that came during the save are added now. Otherwise, if one save followed another,
    // applies might wait for all of them.
    FoldOrWait(round, /*number=*/0, /*must_add=*/false, &call);
  }
  return status;
}

Status Accumulator::AddEarly(const std::vector<SavedGradient>& saved, Workspace& workspace,
                             Round* round) const {
  RoundSum& sum = *round->sum;
  for (const SavedGradient& early : saved) {
    Gradient gradient;
    gradient.owned = gradient.owns_indices = true;
    gradient.shape = early.shape;
    gradient.contributor = early.contributor;
    gradient.weight = early.weight;
    Status status =
        CopyOf(options_.sum.type, early.values, early.shape, workspace, &gradient.values);
    if (status.ok() && early.indices != nullptr) {
      gradient.indices_shape = Shape::Of({early.shape.dim(0)});
      status = CopyOf(ElementType::kInt64, early.indices, gradient.indices_shape, workspace,
                      &gradient.indices);
    }
    if (status.ok()) status = sum.Check(gradient, round->early.first_shape());
    while (status.ok()) {
      const Missing missing = sum.MissingFrom(gradient, /*is_early=*/true);
      if (missing == Missing::kNothing) break;
      status = sum.Supply(missing, workspace, &gradient);
    }
    if (status.ok() && early.indices != nullptr) {
      // A device would find a bad index only in the take. The saved ones are in host memory.
      std::vector<int64_t> indices(gradient.index_span.size);
      std::copy_n(early.indices, indices.size() * sizeof(int64_t),
                  reinterpret_cast<char*>(indices.data()));
      IndexSpan span{indices.data(), indices.size()};
      status = CheckIndices(gradient.index_bound, &span);
    }
    if (!status.ok()) return status;
    sum.MoveMemoryFrom(round->early.Add(std::move(gradient)));
  }
  return Status();
}

Status Accumulator::WriteRound(RoundSum& sum, SavedState* state, Workspace& workspace,
                               StateMemory::Allocator allocate) const noexcept {
  std::sort(state->contributors.begin(), state->contributors.end());
  StateMemory memory(sum.kind(), options_.sum, *state, allocate);
  try {
    const Status status =
        state->sum.num_gradients > 0 ? sum.RunSave(workspace, memory) : memory.AllocateWithoutSum();
    return status.ok() ? memory.WriteEarly(workspace) : status;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "Out of memory");
  }
}

Status Accumulator::Restore(const char* bytes, size_t num_bytes, Workspace& workspace) {
  auto restored = std::make_shared<Round>(options_);
  auto next = std::make_shared<Round>(options_);
  RoundSum& sum = *restored->sum;
  SavedState state;
  Status status = ReadState(bytes, num_bytes, sum.kind(), options_.sum, &state);
  if (status.ok() && state.sum.num_gradients > 0) status = sum.Restore(state.sum, workspace);
  if (status.ok()) status = AddEarly(state.early, workspace, restored.get());
  if (!status.ok()) return status;
  restored->num_appended = restored->num_added = state.sum.num_gradients;
  restored->contributors.insert(state.contributors.begin(), state.contributors.end());

  Call call(&mu_, workspace);
  while (IsFrontReady()) changed_.Wait(&mu_);  // As in Reset().
  step_counter_.Restore(state.global_step, state.num_dropped, state.last_dropped_step);
  const RoundPtr discarded = std::exchange(round_, restored);
  next_round_ = std::move(next);
  discarded->place = Place::kDiscarded;
  changed_.NotifyAll();
  // Otherwise, the thread that works on it frees it.
  const bool must_free = NextAction(*discarded) == Action::kFree;
  // Free() releases the lock, and then the restored round may be another thread's.
  Proceed(restored, &call);
  if (must_free) Free(discarded);
  return status;
}

}  // namespace condacc
