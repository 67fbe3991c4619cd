// Memory for the rows of a merge, which is freed piece by piece.
#ifndef CONDACC_CORE_SPARSE_ROW_PIECES_H_
#define CONDACC_CORE_SPARSE_ROW_PIECES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/sparse/index_buckets.h"

namespace condacc {

// Memory for the items of all buckets, in ascending order: the entries of a merge, or the sums of
// its new rows. It lies in a few pieces, of about equal size unless one bucket is much larger. A
// take frees each of them once it has read all of its items, so that large ones and the result
// never exist in full at the same time.
class RowPieces {
 public:
  RowPieces() = default;
  // Allocates memory for items of `item_bytes` bytes, of which starts[b] belong to buckets below b.
  // May throw std::bad_alloc.
  RowPieces(const IndexBuckets& buckets, const std::vector<size_t>& starts, size_t item_bytes,
            HostWorkspace& workspace)
      : item_bytes_(item_bytes) {
    const size_t num_items = starts.back();
    const size_t num_pieces =
        std::clamp<size_t>(num_items * item_bytes / kMinPieceBytes, 1, kMaxPieces);
    pieces_.reserve(num_pieces);
    for (size_t begin = 0, end = 0, i = 1; begin < buckets.size(); begin = end, ++i) {
      // The last piece also has the buckets behind the last item.
      const auto last = i >= num_pieces
                            ? starts.end() - 1
                            : std::lower_bound(starts.begin() + begin + 1, starts.end() - 1,
                                               num_items * i / num_pieces);
      end = static_cast<size_t>(last - starts.begin());
      Buffer memory = workspace.AllocateInner((starts[end] - starts[begin]) * item_bytes);
      if (!memory) throw std::bad_alloc();
      pieces_.push_back({begin, starts[begin], buckets.last_index(end - 1), std::move(memory)});
    }
  }

  // Allocates memory for one item for each of these indices, which ascend. Only spans() and
  // FreeBelow() may be used.
  RowPieces(const int64_t* indices, size_t num_items, size_t item_bytes, HostWorkspace& workspace)
      : item_bytes_(item_bytes) {
    const size_t num_pieces =
        std::clamp<size_t>(num_items * item_bytes / kMinPieceBytes, 1, kMaxPieces);
    pieces_.reserve(num_pieces);
    for (size_t begin = 0, i = 1; begin < num_items; ++i) {
      const size_t end = num_items * i / num_pieces;
      if (end == begin) continue;
      Buffer memory = workspace.AllocateInner((end - begin) * item_bytes);
      if (!memory) throw std::bad_alloc();
      pieces_.push_back({0, begin, indices[end - 1], std::move(memory)});
      begin = end;
    }
    num_items_ = num_items;
  }

  // The memory of some items in a row.
  struct Span {
    char* memory;
    size_t num_items;
  };
  // Returns the memory of all items, in order, of pieces that were made for indices.
  std::vector<Span> spans() const {
    std::vector<Span> spans;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const size_t end = i + 1 < pieces_.size() ? pieces_[i + 1].first_item : num_items_;
      spans.push_back({static_cast<char*>(pieces_[i].memory.data()), end - pieces_[i].first_item});
    }
    return spans;
  }

  // Returns the memory of the items of a bucket. There are `start` items in lower buckets.
  char* Of(size_t bucket, size_t start) const {
    const Piece* piece = &pieces_.back();
    while (bucket < piece->first_bucket) --piece;
    return static_cast<char*>(piece->memory.data()) + (start - piece->first_item) * item_bytes_;
  }

  // Frees the pieces that only have rows whose indices are below `index`. Allocates nothing.
  void FreeBelow(int64_t index) {
    for (Piece& piece : pieces_) {
      if (piece.last_index < index) piece.memory = Buffer();
    }
  }

 private:
  static constexpr size_t kMinPieceBytes = size_t{4} << 20;
  static constexpr size_t kMaxPieces = 16;

  struct Piece {
    size_t first_bucket;
    size_t first_item;
    int64_t last_index;  // No row has a higher index.
    Buffer memory;
  };

  std::vector<Piece> pieces_;
  size_t item_bytes_ = 0;
  size_t num_items_ = 0;  // Of pieces that were made for indices.
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_ROW_PIECES_H_
