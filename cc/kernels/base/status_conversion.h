// Converts statuses of the core to TensorFlow's.
#ifndef CONDACC_KERNELS_BASE_STATUS_CONVERSION_H_
#define CONDACC_KERNELS_BASE_STATUS_CONVERSION_H_

#include <string>

#include "absl/status/status.h"
#include "cc/core/base/status.h"

namespace condacc {

inline absl::Status ToAbsl(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return absl::OkStatus();
    case StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(status.message());
    case StatusCode::kCancelled:
      return absl::CancelledError(status.message());
    case StatusCode::kFailedPrecondition:
      return absl::FailedPreconditionError(status.message());
    case StatusCode::kOutOfRange:
      return absl::OutOfRangeError(status.message());
    case StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(status.message());
    case StatusCode::kInternal:
      break;
  }
  return absl::InternalError(status.message());
}

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_STATUS_CONVERSION_H_
