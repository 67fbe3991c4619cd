#include "cc/core/sparse/sparse_sum.h"

#include <new>
#include <string>
#include <utility>

#include "cc/core/base/element_type.h"
#include "cc/core/base/invariant.h"
#include "cc/core/sparse/fold_rules.h"
#include "cc/core/sparse/sparse_checks.h"

namespace condacc {
namespace {

// Bytes of a tensor's buffer beside its data: its object, and the alignment to 64 bytes.
constexpr size_t kBufferBytes = 144;
// Counted for each gradient, even without rows: a node of a list, as the allocator rounds it, and
// the buffers of indices and values.
constexpr size_t kBookkeepingBytes = sizeof(Addend) + 4 * sizeof(void*) + 2 * kBufferBytes;

// Returns the addresses of the gradients.
Addends AddressesOf(std::list<Addend>* gradients) {
  Addends addresses;
  addresses.reserve(gradients->size());
  for (Addend& gradient : *gradients) addresses.push_back(&gradient);
  return addresses;
}

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
Status SparseSum<Rows>::Check(const Gradient& gradient, const Shape* early) const {
  if (!Rows::kIsHost && gradient.weight != 1 && options_.reduction == Reduction::kMean) {
    return Status(StatusCode::kInvalidArgument,
                  "On a GPU, sparse gradients with weights have no MEAN: use GLOBAL_MEAN or SUM");
  }
  return CheckSparseShapes(gradient, options_.shape, is_empty_ ? early : &format_.values);
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
  CONDACC_INVARIANT(gradient.is_kept);
  const size_t bytes = kBookkeepingBytes + gradient.index_span.size * sizeof(int64_t) +
                       NumBytes(options_.type, gradient.shape);
  if (is_empty_) format_ = RowFormat::Of(options_.type, gradient.shape);
  pending_.push_back(std::move(gradient));
  is_empty_ = false;
  total_weight_ += pending_.back().weight;
  pending_bytes_ += bytes;
  Hold(bytes);
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
  folding_.swap(pending_);
  folding_bytes_ = std::exchange(pending_bytes_, 0);
  return static_cast<int64_t>(folding_.size());
}

template <class Rows>
void SparseSum<Rows>::RunFold(Workspace& workspace) noexcept {
  try {
    has_folded_ = rows_.Fold(AddressesOf(&folding_), OfRows(workspace));
  } catch (const std::bad_alloc&) {
    has_folded_ = false;
  }
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
double SparseSum<Rows>::BeginSave() {
  rows_.BeginSave(AddressesOf(&pending_), total_weight_);
  return total_weight_;
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
  is_empty_ = false;
  total_weight_ = saved.total_weight;
  num_merged_ = rows_.num_rows();
  return status;
}

template <class Rows>
Status SparseSum<Rows>::PrepareFinish(std::vector<Gradient*> early, Workspace& workspace) {
  if (is_empty_) format_ = RowFormat::Of(options_.type, early[0]->shape);
  Addends gradients = AddressesOf(&pending_);
  gradients.insert(gradients.end(), early.begin(), early.end());
  double total_weight = total_weight_;
  for (const Gradient* gradient : early) total_weight += gradient->weight;
  return rows_.PrepareFinish(gradients, total_weight, OfRows(workspace));
}

template <class Rows>
void SparseSum<Rows>::Clear() noexcept {
  Hold(-held_bytes_);
  pending_.clear();
  pending_bytes_ = 0;
  is_empty_ = true;
  total_weight_ = 0;
  rows_.Clear();
  num_merged_ = 0;
}

template class SparseSum<HostRows>;
template class SparseSum<DeviceRows>;

}  // namespace condacc
