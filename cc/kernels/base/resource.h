// The base class of all resources of this library.
#ifndef CONDACC_KERNELS_BASE_RESOURCE_H_
#define CONDACC_KERNELS_BASE_RESOURCE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/resource_base.h"

namespace condacc {

class PluginResource : public tensorflow::ResourceBase {
 public:
  explicit PluginResource(std::string where) : where_(std::move(where)) {}

  // Returns what the errors of its ops are about, such as "accumulator 'w'".
  const std::string& where() const { return where_; }
  std::string DebugString() const override { return where_; }
  // Returns the name in a handle that counts references. TensorFlow's own function ends the process
  // if memory for the name is refused.
  std::string MakeRefCountingHandleName(int64_t resource_id) const final {
    return absl::StrCat("Resource-", resource_id, "-at-",
                        absl::Hex(reinterpret_cast<uintptr_t>(this)));
  }

 private:
  const std::string where_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_RESOURCE_H_
