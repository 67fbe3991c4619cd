#include "cc/gpu/device_check.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "cc/gpu/host_device.h"
#include "cc/gpu/kernel_launch.h"

namespace condacc {
namespace {

// A kernel that runs wherever the others do.
struct DoNothing {
  CONDACC_HOST_DEVICE void operator()(int64_t /*item*/) const {}
};

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Returns " (580 or later)": the first driver that supports a major version of CUDA.
std::string FirstDriver(int major) {
  switch (major) {
    case 11:
      return " (450 or later)";
    case 12:
      return " (525 or later)";
    case 13:
      return " (580 or later)";
    default:
      return "";
  }
}

std::string Remedy(cudaError_t error, int driver_version, int runtime_version) {
  const int major = runtime_version / 1000;
  switch (error) {
    case cudaErrorInsufficientDriver:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorCallRequiresNewerDriver:
      return "Its driver supports CUDA " + VersionText(driver_version) +
             ", and tf_condacc was built with CUDA " + VersionText(runtime_version) +
             ": install a driver for CUDA " + std::to_string(major) + FirstDriver(major) + ", or ";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return "Its compute capability must be one that tf_condacc was built for (see "
             "tf_condacc.build_info()): 8.0 or higher by default. Otherwise, ";
    default:
      return "If that cannot be mended, ";
  }
}

}  // namespace

Status UnusableDevice(int error, int driver_version, int runtime_version) {
  const auto cuda_error = static_cast<cudaError_t>(error);
  return Status(StatusCode::kFailedPrecondition,
                std::string("The GPU cannot run the kernels of tf_condacc: ") +
                    cudaGetErrorName(cuda_error) + ", " + cudaGetErrorString(cuda_error) + ". " +
                    Remedy(cuda_error, driver_version, runtime_version) +
                    "place the accumulator on the CPU with tf.device(\"/CPU:0\")");
}

Status CheckDevice() {
  cudaFuncAttributes attributes;
  const cudaError_t error =
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&ForEachItem<DoNothing>));
  if (error == cudaSuccess) return Status();
  cudaGetLastError();  // Otherwise, this thread's next launch would return it.
  int driver_version = 0;
  cudaDriverGetVersion(&driver_version);
  return UnusableDevice(error, driver_version, CUDART_VERSION);
}

}  // namespace condacc
