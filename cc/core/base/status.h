// Errors of the core, as values. The codes are those that the kernels pass on to TensorFlow.
#ifndef CONDACC_CORE_BASE_STATUS_H_
#define CONDACC_CORE_BASE_STATUS_H_

#include <string>
#include <utility>

namespace condacc {

enum class StatusCode {
  kOk,
  kInvalidArgument,
  kCancelled,
  kFailedPrecondition,
  kOutOfRange,
  kResourceExhausted,
  kInternal
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_STATUS_H_
