#include "cc/core/sync/slots.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace condacc {
namespace {

constexpr uint64_t kHolder = 1, kOtherHolder = 2;

void ExpectCounts(const Slots& slots, int num_free, int num_held, int num_complete) {
  EXPECT_EQ(slots.size(), num_free + num_held + num_complete);
  EXPECT_EQ(slots.num_free(), num_free);
  EXPECT_EQ(slots.num_held(), num_held);
  EXPECT_EQ(slots.num_complete(), num_complete);
}

TEST(Slots, TheFirstFreeOneIsHeldUntilNoneIsLeft) {
  Slots slots(2);
  ExpectCounts(slots, 2, 0, 0);
  EXPECT_EQ(slots.Hold(kHolder), 0);
  EXPECT_EQ(slots.Hold(kOtherHolder), 1);
  EXPECT_EQ(slots.Hold(kOtherHolder), Slots::kNone);
  ExpectCounts(slots, 0, 2, 0);
  slots.Free(0, kHolder);
  EXPECT_EQ(slots.Hold(kOtherHolder), 0);
}

TEST(Slots, ASlotIsCompletedOnceAndStaysComplete) {
  Slots slots(1);
  ASSERT_EQ(slots.Hold(kHolder), 0);
  EXPECT_TRUE(slots.Complete(0));
  EXPECT_FALSE(slots.Complete(0));
  slots.Free(0, kHolder);
  slots.FreeHeld();
  ExpectCounts(slots, 0, 0, 1);
  EXPECT_EQ(slots.Hold(kOtherHolder), Slots::kNone);
}

TEST(Slots, AFormerHolderFreesNothingButCompletesTheSlot) {
  Slots slots(1);
  ASSERT_EQ(slots.Hold(kHolder), 0);
  slots.FreeHeld();
  ExpectCounts(slots, 1, 0, 0);
  ASSERT_EQ(slots.Hold(kOtherHolder), 0);
  slots.Free(0, kHolder);
  ExpectCounts(slots, 0, 1, 0);
  EXPECT_TRUE(slots.Complete(0));
  EXPECT_FALSE(slots.Complete(0)) << "the holder comes too late";
}

TEST(Slots, ARoundBeginsWithFreeSlots) {
  Slots slots(3);
  slots.Hold(kHolder);
  slots.Complete(slots.Hold(kOtherHolder));
  slots.FreeAll();
  ExpectCounts(slots, 3, 0, 0);
}

}  // namespace
}  // namespace condacc
