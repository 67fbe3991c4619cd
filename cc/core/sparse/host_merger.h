// Merges sparse gradients in memory that the CPU reads.
#ifndef CONDACC_CORE_SPARSE_HOST_MERGER_H_
#define CONDACC_CORE_SPARSE_HOST_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/sparse_merge.h"
#include "cc/core/sparse/sparse_parts.h"
#include "cc/core/sparse/sparse_workspace.h"
#include "cc/core/sparse/sum_chunk.h"

namespace condacc {

// What of a SparseSum depends on where its gradients lie: the rows that were merged before the
// take, and how others are merged into them. See DeviceMerger for another.
class HostMerger {
 public:
  using Workspace = HostSparseWorkspace;

  explicit HostMerger(const SparseOptions& options) : options_(options) {}

  // Makes rows of the gradient that may be kept, once their indices are seen to be good.
  static Status Prepare(const SparseOptions& options, Workspace& workspace,
                        SparseGradient* gradient);

  // Of the first gradient's values. Rows may be merged from then on.
  void SetShape(const Shape& values) {
    shape_ = values;
    layout_ = RowLayout::Of(options_.type, values);
  }
  const Shape& shape() const { return shape_; }

  size_t num_rows() const { return merged_.size(); }  // merged so far
  size_t num_bytes() const { return merged_.size() * layout_.num_sum_bytes(); }

  // Merges the gradients. False if there was not enough memory: nothing has changed then.
  bool Fold(const std::list<KeptRows>& gradients, Workspace& workspace);

  // See SumContract. `pending`: the gradients that are not merged yet, which stay where they are
  // until Finish(); `count`: of all gradients.
  Status PrepareFinish(std::list<KeptRows>* pending, int64_t count, Workspace& workspace);
  void AbandonFinish() { output_.reset(); }
  SparseValue Finish(Workspace& workspace);

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
    Merging merging;
    KeptRows* forwarded = nullptr;  // The gradient that is handed out, without merging anything.
    int64_t divisor = 0;
    SparseValue value;
  };

  // A single gradient whose rows are in order is its own result.
  bool IsForwarded(const std::list<KeptRows>& pending, int64_t count) const {
    return count == 1 && merged_.size() == 0 && pending.size() == 1 &&
           pending.front().survey.is_ascending;
  }

  Status StartMerging(const std::list<KeptRows>& gradients, Workspace& workspace,
                      Merging* merging) const;
  void Write(const SparseValue& value, Workspace& workspace);

  const SparseOptions& options_;
  Shape shape_;
  RowLayout layout_;
  MergedRows merged_;
  std::vector<SumChunk> chunks_;    // where the merged sums lie
  std::unique_ptr<Output> output_;  // from PrepareFinish() on
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_HOST_MERGER_H_
