// The errors of ops.
#ifndef CONDACC_KERNELS_BASE_ERRORS_H_
#define CONDACC_KERNELS_BASE_ERRORS_H_

#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace condacc {

// Returns the status of body(), or ResourceExhausted if it throws std::bad_alloc, which
// TensorFlow's executor would not survive. The error has no message if there is no memory for it.
template <class Body>
absl::Status OrOutOfMemory(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
  }
  try {
    return absl::ResourceExhaustedError("Out of memory");
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

// Returns the status of OrOutOfMemory(body). The message of an error becomes "MESSAGE (WHERE)", if
// there is memory for that. `where` is what the error is about, such as "accumulator 'w'"; nothing
// is added if it is empty.
template <class Body>
absl::Status Named(absl::string_view where, Body body) noexcept {
  const absl::Status status = OrOutOfMemory(body);
  if (status.ok() || where.empty()) return status;
  try {
    return absl::Status(status.code(), absl::StrCat(status.message(), " (", where, ")"));
  } catch (const std::bad_alloc&) {
    return status;
  }
}

// Calls body(), which has no part in the result of an op, for example because it logs a warning.
// Gives it up if it throws std::bad_alloc.
template <class Body>
void IfThereIsMemory(Body body) noexcept {
  try {
    body();
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_ERRORS_H_
