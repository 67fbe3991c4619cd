// Errors of the core, as values.
#ifndef CONDACC_CORE_BASE_STATUS_H_
#define CONDACC_CORE_BASE_STATUS_H_

#include <string>
#include <utility>

namespace condacc {

// The errors that the kernels pass on to TensorFlow, with the numbers of absl::StatusCode.
enum class StatusCode {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kOutOfRange = 11,
  kInternal = 13
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // Returns the error of what cannot be tried again, as ResourceExhausted would promise.
  Status Permanent() && {
    if (code_ == StatusCode::kResourceExhausted) code_ = StatusCode::kInternal;
    return std::move(*this);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_STATUS_H_
