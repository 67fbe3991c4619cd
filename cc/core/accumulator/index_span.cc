#include "cc/core/accumulator/index_span.h"

#include <algorithm>
#include <string>

namespace condacc {
namespace {

Status BadIndex(const std::string& message) {
  return Status(StatusCode::kInvalidArgument, message);
}

}  // namespace

Status CheckIndices(int64_t index_bound, IndexSpan* span) {
  const int64_t* const indices = span->data;
  const size_t size = span->size;
  if (size == 0) return Status();
  int64_t min = indices[0];
  int64_t max = indices[0];
  bool is_ascending = true;
  for (size_t i = 1; i < size; ++i) {
    is_ascending &= indices[i] > indices[i - 1];
    min = std::min(min, indices[i]);
    max = std::max(max, indices[i]);
  }
  span->min = min;
  span->max = max;
  span->is_ascending = is_ascending;
  const bool has_bound = index_bound >= 0;
  if (min >= 0 && (!has_bound || max < index_bound)) return Status();
  const int64_t* const wrong = std::find_if(indices, indices + size, [&](int64_t index) {
    return index < 0 || (has_bound && index >= index_bound);
  });
  const std::string slice = "index of slice " + std::to_string(wrong - indices);
  if (*wrong < 0) {
    return BadIndex("Shape mismatch: " + slice + " is negative; index is " +
                    std::to_string(*wrong));
  }
  return BadIndex("Shape mismatch: " + slice + " exceeded limits of shape; index is " +
                  std::to_string(*wrong) + " exceeded " + std::to_string(index_bound));
}

Status CheckAcceptedIndices(IndexSpan span, int64_t index_bound,
                            std::optional<int64_t> contributor) {
  const Status status = CheckIndices(index_bound, &span);
  if (status.ok()) return status;
  const std::string by =
      contributor.has_value() ? " (contributor " + std::to_string(*contributor) + ")" : "";
  return Status(status.code(), status.message() + by +
                                   ". All gradients of its round are lost: a take of the round "
                                   "fails and discards them");
}

}  // namespace condacc
