#include "cc/core/sparse/sparse_sum.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "cc/core/base/element_type.h"
#include "cc/core/base/invariant.h"
#include "cc/core/sparse/fold_rules.h"
#include "cc/core/sparse/sparse_checks.h"

namespace condacc {
namespace {

constexpr size_t kBookkeepingBytes = 256;  // Counted for each gradient, even without rows.

// Moves the gradient's indices to memory that may be kept, as int64. Returns InvalidArgument if
// there are 2**num_bits or more.
Status KeepIndices(int num_bits, Workspace& workspace, Gradient* gradient) {
  const Shape& shape = gradient->indices_shape;
  const auto size = static_cast<size_t>(shape.dim(0));
  if (size >> num_bits > 0) {
    return Status(StatusCode::kInvalidArgument,
                  "Expected fewer than 2**" + std::to_string(num_bits) +
                      " rows in a gradient, got " + std::to_string(size));
  }
  if (gradient->owns_indices && !gradient->indices_are_int32) return Status();
  Buffer kept;
  Status status = workspace.Allocate(ElementType::kInt64, shape, &kept);
  if (!status.ok()) return status;
  const void* const from = gradient->indices.data();
  auto* const to = static_cast<int64_t*>(kept.data());
  status = gradient->indices_are_int32
               ? workspace.Widen(static_cast<const int32_t*>(from), size, to)
               : workspace.Copy(from, size * sizeof(int64_t), to);
  gradient->indices = std::move(kept);
  return status;
}

}  // namespace

template <class Rows>
Status SparseSum<Rows>::Check(const Gradient& gradient) const {
  if (!Rows::kIsHost && gradient.weight != 1 && options_.reduction == Reduction::kMean) {
    return Status(StatusCode::kInvalidArgument,
                  "On a GPU, sparse gradients with weights have no MEAN: use GLOBAL_MEAN or SUM");
  }
  return CheckSparseShapes(gradient, options_.shape,
                           order_.size() == 0 ? nullptr : &format_.values);
}

template <class Rows>
Status SparseSum<Rows>::Supply([[maybe_unused]] Missing missing, Workspace& workspace,
                               Gradient* gradient) const {
  CONDACC_INVARIANT(missing == Missing::kKeptCopy);
  Status status = KeepIndices(Rows::kNumEntryBits, workspace, gradient);
  if (!status.ok()) return status;
  gradient->index_bound = IndexBound(*gradient, options_.shape);
  IndexSpan& span = gradient->index_span;
  span.data = static_cast<const int64_t*>(gradient->indices.data());
  span.size = static_cast<size_t>(gradient->indices_shape.dim(0));
  // Indices are checked before the values, which may be large, are copied.
  if (Rows::kIsHost) status = CheckIndices(gradient->index_bound, &span);
  if (status.ok() && !gradient->owned) status = CopyValues(workspace, gradient);
  gradient->is_kept = status.ok();
  return status;
}

template <class Rows>
Appended SparseSum<Rows>::Append(Gradient&& gradient) {
  CONDACC_INVARIANT(MissingFrom(gradient) == Missing::kNothing);
  const size_t bytes = BytesOf(gradient);
  if (order_.size() == 0) format_ = RowFormat::Of(options_.type, gradient.shape);
  order_.Reserve();
  if (options_.in_order_of_contributors()) early_.reserve(order_.arrivals().capacity());
  pending_.push_back(std::move(gradient));
  Hold(bytes);
  return PutInOrder();
}

template <class Rows>
Appended SparseSum<Rows>::PutInOrder() noexcept {
  const auto last = std::prev(pending_.end());
  const auto next = early_.begin() + static_cast<std::ptrdiff_t>(order_.NumEarlyBefore(*last));
  if (next != early_.end()) pending_.splice(*next, pending_, last);
  const size_t num_ready = order_.Add(*last);
  if (num_ready == 0) {
    early_.insert(next, last);
    return Appended::kEarly;
  }
  // The gradient and the early ones that it has made ready are now the end of the ready ones.
  early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(num_ready - 1));
  for (auto ready = last; ready != FirstEarly(); ++ready) pending_bytes_ += BytesOf(*ready);
  return Appended::kPending;
}

template <class Rows>
Advice SparseSum<Rows>::Advise(const NextTake& next_take) const {
  return AdviseFold({num_pending(), pending_bytes_, folding_bytes_, num_merged_,
                     num_merged_ * format_.layout.num_sum_bytes()},
                    next_take, options_);
}

template <class Rows>
int64_t SparseSum<Rows>::BeginFold() noexcept {
  CONDACC_INVARIANT(num_pending() > 0 && folding_.empty());
  if (order_.num_early() == 0) {
    folding_.swap(pending_);
  } else {
    folding_.splice(folding_.end(), pending_, pending_.begin(), FirstEarly());
  }
  folding_bytes_ = std::exchange(pending_bytes_, 0);
  return static_cast<int64_t>(folding_.size());
}

template <class Rows>
void SparseSum<Rows>::RunFold(Workspace& workspace) noexcept {
  has_folded_ = rows_.Fold(&folding_, OfRows(workspace));
  if (!has_folded_) return;
  folding_.clear();
  workspace.NoteFreed(folding_bytes_);
}

template <class Rows>
bool SparseSum<Rows>::EndFold() noexcept {
  if (has_folded_) {
    Hold(-folding_bytes_);
    num_merged_ = rows_.num_rows();
  } else {
    pending_.splice(pending_.begin(), folding_);
    pending_bytes_ += folding_bytes_;
  }
  folding_bytes_ = 0;
  return has_folded_;
}

template <class Rows>
Status SparseSum<Rows>::BeginSave(SavedSum* saved) {
  saved->total_weight = order_.TotalWeight();
  rows_.BeginSave(pending_, num_pending(), saved->total_weight);
  for (auto early = FirstEarly(); early != pending_.end(); ++early) {
    saved->early.push_back({early->shape, reinterpret_cast<const char*>(early->index_span.data),
                            static_cast<const char*>(early->values.data()), early->index_bound,
                            early->contributor});
  }
  if (options_.in_order_of_contributors()) saved->arrivals = order_.arrivals();
  return Status();
}

template <class Rows>
Status SparseSum<Rows>::CheckEarly(const SavedGradient& early, const int64_t* indices) const {
  if (Rows::kIsHost) return Status();  // Supply() has checked them.
  const auto size = static_cast<size_t>(early.shape.dim(0));
  return CheckMergedIndices({indices, size}, early.index_bound, early.contributor);
}

template <class Rows>
Status SparseSum<Rows>::Restore(const SavedSum& saved, Workspace& workspace) {
  Gradient like;  // A gradient with these rows would be accepted.
  like.shape = saved.shape;
  like.indices_shape = Shape::Of({saved.shape.dim(0)});
  Status status = CheckSparseShapes(like, options_.shape, nullptr);
  if (!status.ok()) return status;
  format_ = RowFormat::Of(options_.type, saved.shape);
  status = rows_.Restore(saved, IndexBound(like, options_.shape), OfRows(workspace));
  if (!status.ok()) return status;
  order_.AddFirst(saved.num_ready(), saved.arrivals, saved.total_weight);
  num_merged_ = rows_.num_rows();
  return status;
}

template <class Rows>
void SparseSum<Rows>::Clear() noexcept {
  Hold(-held_bytes_);
  pending_.clear();
  pending_bytes_ = 0;
  order_.Clear();
  early_.clear();
  rows_.Clear();
  num_merged_ = 0;
}

template <class Rows>
size_t SparseSum<Rows>::BytesOf(const Gradient& gradient) const {
  const auto elements = static_cast<size_t>(gradient.shape.num_elements());
  return kBookkeepingBytes + gradient.index_span.size * sizeof(int64_t) +
         elements * SizeOf(options_.type);
}

template class SparseSum<HostRows>;
template class SparseSum<DeviceRows>;

}  // namespace condacc
