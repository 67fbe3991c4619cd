// Tests of the errors about devices that cannot run the kernels.
#include "cc/gpu/device_check.h"

#include <cuda_runtime.h>

#include <string>

#include "gtest/gtest.h"
#include "tests/cc/gpu/gpu_support.h"

namespace condacc {
namespace {

class DeviceCheckGpuTest : public GpuTest {
 protected:
  static void ExpectSaid(cudaError_t error, int driver_version, const std::string& words) {
    const Status status = UnusableDevice(error, driver_version, /*runtime_version=*/13000);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("place the accumulator on the CPU"), std::string::npos);
  }
};

TEST_F(DeviceCheckGpuTest, ThisDeviceIsUsable) {
  EXPECT_STREQ(CheckDevice().message().c_str(), "");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(DeviceCheckGpuTest, AnOldDriverIsToldWithTheOneThatIsNeeded) {
  const std::string words =
      "Its driver supports CUDA 12.4, and tf_condacc was built with CUDA 13.0: install a driver "
      "for CUDA 13 (580 or later)";
  ExpectSaid(cudaErrorInsufficientDriver, 12040, words);
  ExpectSaid(cudaErrorUnsupportedPtxVersion, 12040, words);
}

TEST_F(DeviceCheckGpuTest, AnOldDeviceIsToldWithTheCapabilityThatIsNeeded) {
  ExpectSaid(cudaErrorNoKernelImageForDevice, 13000, "compute capability must be one that");
}

TEST_F(DeviceCheckGpuTest, AnyOtherErrorIsNamed) {
  ExpectSaid(cudaErrorMemoryAllocation, 13000, "cudaErrorMemoryAllocation");
}

}  // namespace
}  // namespace condacc
