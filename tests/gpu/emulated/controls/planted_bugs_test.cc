// The emulated GPU notices bugs of kernels.
#include "tests/gpu/emulated/controls/planted_bugs.h"

#include <cstdlib>

#include "gtest/gtest.h"
#include "tests/gpu/emulated/runtime/reports.h"

namespace condacc {
namespace emulated {
namespace {

TEST(PlantedBugsTest, WithoutABugNothingIsReported) {
  EXPECT_EXIT(std::exit(DoublesRightly(Bug::kNone) ? 0 : 1), testing::ExitedWithCode(0),
              "0 kinds of faults");
}

TEST(PlantedBugsTest, AccessesToMemoryOfOthersEndTheProcess) {
  EXPECT_DEATH(DoublesRightly(Bug::kReadsBeyondTheEnd),
               "access beyond an allocation|not device memory");
  EXPECT_DEATH(DoublesRightly(Bug::kWritesBeyondTheEnd),
               "access beyond an allocation|not device memory");
  EXPECT_DEATH(DoublesRightly(Bug::kReadsHostMemory), "access to what is not device memory");
}

TEST(PlantedBugsTest, AMisalignedAccessEndsTheProcess) {
  EXPECT_DEATH(DoublesRightly(Bug::kIsMisaligned), "misaligned access, in block 0, thread 3");
}

TEST(PlantedBugsTest, AReadOfMemoryThatWasNeverWrittenIsReported) {
  EXPECT_EXIT(std::exit(DoublesRightly(Bug::kReadsWhatIsNotWritten) ? 0 : 1),
              testing::ExitedWithCode(kReportedStatus), "FAULT.*never written");
}

TEST(PlantedBugsTest, RacesAreReported) {
  EXPECT_EXIT(std::exit(DoublesRightly(Bug::kWritesWhereOthersDo) ? 0 : 1),
              testing::ExitedWithCode(kReportedStatus), "FAULT.*write of what another thread");
  EXPECT_EXIT(std::exit(DoublesRightly(Bug::kReadsWhatOthersWrite) ? 0 : 1),
              testing::ExitedWithCode(kReportedStatus), "FAULT.*read of what another thread");
}

TEST(PlantedBugsTest, AMissingBarrierGivesWrongNumbers) {
  EXPECT_EXIT(std::exit(DoublesRightly(Bug::kMissesABarrier) ? 0 : 1), testing::ExitedWithCode(1),
              "");
}

TEST(PlantedBugsTest, ABarrierThatNobodyElseReachesEndsTheProcess) {
  EXPECT_DEATH(DoublesRightly(Bug::kWaitsForTooMany), "all threads of a block wait");
}

}  // namespace
}  // namespace emulated
}  // namespace condacc
