// The error of an op that runs out of memory.
#ifndef CONDACC_KERNELS_BASE_OUT_OF_MEMORY_H_
#define CONDACC_KERNELS_BASE_OUT_OF_MEMORY_H_

#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace condacc {

// Returns the ResourceExhausted error "Out of memory (WHERE)", or one without a message if there is
// no memory for it.
inline absl::Status OutOfMemory(absl::string_view where) noexcept {
  try {
    return absl::ResourceExhaustedError(absl::StrCat("Out of memory (", where, ")"));
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

// Returns the status of body(), or OutOfMemory(where) if it throws std::bad_alloc, which
// TensorFlow's executor would not survive.
template <class Body>
absl::Status OrOutOfMemory(absl::string_view where, Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return OutOfMemory(where);
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

#endif  // CONDACC_KERNELS_BASE_OUT_OF_MEMORY_H_
