// The op that makes a resource and outputs its handle.
#ifndef CONDACC_KERNELS_BASE_HANDLE_OP_H_
#define CONDACC_KERNELS_BASE_HANDLE_OP_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/base/mutex.h"
#include "cc/kernels/base/errors.h"
#include "cc/kernels/base/kernel.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

// Makes or finds a resource and outputs its handle. The attributes determine its lifetime:
// - If `anonymous`, or if the op does not have this attribute, each execution makes a new resource,
//   which lives as long as its handle.
// - With a `shared_name`, the resource is looked up or made in the resource manager, and stays
//   there.
// - Otherwise, the resource belongs to the kernel: it is kept from step to step and removed with
//   the kernel.
template <class Resource>
class HandleOp : public Kernel {
 public:
  explicit HandleOp(tensorflow::OpKernelConstruction* ctx) : Kernel(ctx) {
    std::string shared_name;
    if (ctx->HasAttr("anonymous")) {
      OP_REQUIRES_OK(ctx, ctx->GetAttr("anonymous", &anonymous_));
      OP_REQUIRES_OK(ctx, ctx->GetAttr("shared_name", &shared_name));
    }
    where_ = absl::StrCat(Resource::kKind, " '", shared_name.empty() ? name() : shared_name, "'");
  }

  ~HandleOp() override {
    if (!is_initialized_ || !container_.resource_is_private_to_kernel()) return;
    // The resource may already be gone, with its container or through DestroyResourceOp.
    IfThereIsMemory([this] {
      container_.resource_manager()
          ->template Delete<Resource>(container_.container(), container_.name())
          .IgnoreError();
    });
  }

 protected:
  using Contents = std::vector<tensorflow::DtypeAndPartialTensorShape>;

  // Returns PluginResource::where() of the resource.
  const std::string& where() const { return where_; }

 private:
  virtual Resource* NewResource() const = 0;
  // Returns an error if the resource cannot be used on the op's device.
  virtual absl::Status CheckPlacement(tensorflow::OpKernelContext* /*ctx*/) const {
    return absl::OkStatus();
  }
  // Returns an error if a resource that was found under the shared name is not what this op would
  // have made.
  virtual absl::Status CheckSame(const Resource& /*found*/) const { return absl::OkStatus(); }
  virtual Contents contents() const { return {}; }

  absl::Status Run(tensorflow::OpKernelContext* ctx) override {
    return Named(where_, [&] { return OutputHandle(ctx); });
  }

  absl::Status OutputHandle(tensorflow::OpKernelContext* ctx) CONDACC_EXCLUDES(mu_) {
    if (anonymous_) {
      TF_RETURN_IF_ERROR(CheckPlacement(ctx));
      return OutputAnonymousHandle(ctx);
    }
    MutexLock lock(&mu_);
    TF_RETURN_IF_ERROR(FindOrMake(ctx));
    ctx->set_output(0, handle_);
    return absl::OkStatus();
  }

  absl::Status OutputAnonymousHandle(tensorflow::OpKernelContext* ctx) const {
    tensorflow::Tensor* handle = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, tensorflow::TensorShape({}), &handle));
    const Contents contents = this->contents();
    handle->scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle<Resource>(
            NewResource(), ctx->device()->name(), contents);
    return absl::OkStatus();
  }

  // Looks the resource up or makes it, unless the one found before still exists. After that one was
  // destroyed, another one may have been made under its name.
  absl::Status FindOrMake(tensorflow::OpKernelContext* ctx) CONDACC_REQUIRES(mu_) {
    if (resource_.GetNewRef() != nullptr) return absl::OkStatus();
    if (!is_initialized_) TF_RETURN_IF_ERROR(MakeHandle(ctx));
    Resource* resource = nullptr;
    TF_RETURN_IF_ERROR(container_.resource_manager()->template LookupOrCreate<Resource>(
        container_.container(), container_.name(), &resource, [&](Resource** made) {
          TF_RETURN_IF_ERROR(CheckPlacement(ctx));
          *made = NewResource();
          return absl::OkStatus();
        }));
    const tensorflow::core::RefCountPtr<Resource> reference(resource);
    TF_RETURN_IF_ERROR(CheckSame(*resource));
    resource_ = tensorflow::core::WeakPtr<Resource>(resource);
    return absl::OkStatus();
  }

  absl::Status MakeHandle(tensorflow::OpKernelContext* ctx) CONDACC_REQUIRES(mu_) {
    TF_RETURN_IF_ERROR(container_.Init(ctx->resource_manager(), def()));
    tensorflow::Tensor handle;
    tensorflow::AllocatorAttributes in_host_memory;
    in_host_memory.set_on_host(true);
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_RESOURCE, tensorflow::TensorShape({}),
                                          &handle, in_host_memory));
    handle.scalar<tensorflow::ResourceHandle>()() = tensorflow::MakeResourceHandle<Resource>(
        ctx, container_.container(), container_.name(), contents());
    handle_ = std::move(handle);
    is_initialized_ = true;
    return absl::OkStatus();
  }

  bool anonymous_ = true;
  std::string where_;
  Mutex mu_;
  bool is_initialized_ CONDACC_GUARDED_BY(mu_) = false;  // container_ and handle_ are set.
  tensorflow::ContainerInfo container_ CONDACC_GUARDED_BY(mu_);
  tensorflow::Tensor handle_ CONDACC_GUARDED_BY(mu_);
  tensorflow::core::WeakPtr<Resource> resource_ CONDACC_GUARDED_BY(mu_);
};

// The op of a resource that is made from its where().
template <class Resource>
class NamedHandleOp : public HandleOp<Resource> {
 public:
  using HandleOp<Resource>::HandleOp;

 private:
  Resource* NewResource() const override { return new Resource(this->where()); }
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_HANDLE_OP_H_
