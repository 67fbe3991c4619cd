// Merges sparse gradients in memory that the CPU reads.
#ifndef CONDACC_CORE_SPARSE_HOST_MERGER_H_
#define CONDACC_CORE_SPARSE_HOST_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "cc/core/base/element_type.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/sparse_merge.h"
#include "cc/core/sparse/sparse_parts.h"
#include "cc/core/sparse/sum_chunk.h"

namespace condacc {

// What a call into the accumulator may work with; `Block` as for DenseWorkspace, and in addition
// Discard(num_bytes) tells it that its first bytes, so many, will not be read again.
template <class Block>
class SparseWorkspace {
 public:
  virtual ~SparseWorkspace() = default;
  virtual Status Allocate(ElementType type, const Shape& shape, Block* block) = 0;
  // For what nobody else will see: sums that are merged before the take, and what merging works
  // with. It is they that are discarded.
  virtual Status AllocateInner(ElementType type, const Shape& shape, Block* block) = 0;
  // Records that a fold has freed gradients of so many bytes. Must return at once: takes may be
  // waiting for the fold.
  virtual void NoteFreed(size_t num_bytes) = 0;
  virtual const ParallelFor& parallel_for() const = 0;
};

// What of a SparseSum depends on where its gradients lie: the rows that were merged before the
// take, and how others are merged into them. See DeviceMerger for another.
template <class Block>
class HostMerger {
 public:
  using Options = SparseOptions<Block>;
  using Gradient = SparseGradient<Block>;
  using Value = SparseValue<Block>;
  using Workspace = SparseWorkspace<Block>;

  explicit HostMerger(const Options& options) : options_(options) {}

  static Status Prepare(const Options& options, Workspace& workspace, Gradient* gradient);

  // Of the first gradient's values. Rows may be merged from then on.
  void SetShape(const Shape& values) {
    shape_ = values;
    layout_ = RowLayout::Of(options_.type, values);
  }
  const Shape& shape() const { return shape_; }

  size_t num_rows() const { return merged_.size(); }  // merged so far
  size_t num_bytes() const { return merged_.size() * layout_.num_sum_bytes(); }

  // Merges the gradients. False if there was not enough memory: nothing has changed then.
  bool Fold(const std::list<Gradient>& gradients, Workspace& workspace);

  // Of gradients that are not merged yet; `count`: of all. See SparseSum.
  Status PrepareFinish(const std::list<Gradient>& pending, int64_t count, Workspace& workspace);
  void AbandonFinish() { output_.reset(); }
  Value Finish(std::list<Gradient>* pending, int64_t count, Workspace& workspace);

  // Forgets all rows.
  void Clear() {
    merged_ = MergedRows();
    chunks_.clear();
  }

 private:
  static constexpr size_t kMinDiscarded = size_t{4} << 20;  // bytes, of all that might be

  // Gradients that are merged, and the memory for it.
  struct Merging {
    std::vector<RowSource> sources;
    Block entries;
    std::optional<SparseMerge> merge;
  };
  // A result that is to be written.
  struct Output {
    Merging merging;  // nothing if a gradient is handed out
    Value value;
  };

  // A single gradient whose rows are in order is its own result.
  bool IsForwarded(const std::list<Gradient>& pending, int64_t count) const {
    return count == 1 && merged_.size() == 0 && pending.size() == 1 &&
           pending.front().survey.is_ascending;
  }

  Status StartMerging(const std::list<Gradient>& gradients, Workspace& workspace,
                      Merging* merging) const;
  void Write(int64_t count, const Value& value, Workspace& workspace);

  const Options& options_;
  Shape shape_;
  RowLayout layout_;
  MergedRows merged_;
  std::vector<SumChunk<Block>> chunks_;  // where the merged sums lie
  std::unique_ptr<Output> output_;       // from PrepareFinish() on
};

}  // namespace condacc

#include "cc/core/sparse/host_merger_impl.h"  // IWYU pragma: export

#endif  // CONDACC_CORE_SPARSE_HOST_MERGER_H_
