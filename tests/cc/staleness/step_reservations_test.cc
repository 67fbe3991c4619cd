#include "cc/core/staleness/step_reservations.h"

#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace condacc {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Opens a reservation while the variable is at `step`.
void ReserveAt(int64_t step, StepReservations* reservations) {
  reservations->ExpectedStep(step);
  reservations->Reserve();
}

// The table in the header, up to where its last rows differ.
StepReservations AfterAFailure() {
  StepReservations reservations;
  ReserveAt(10, &reservations);
  ReserveAt(10, &reservations);
  EXPECT_EQ(reservations.ExpectedStep(11), 12);
  reservations.End();
  ReserveAt(11, &reservations);
  reservations.End();
  EXPECT_EQ(reservations.num_open(), 1);
  return reservations;
}

TEST(StepReservations, FollowTheTable) {
  EXPECT_EQ(AfterAFailure().ExpectedStep(11), 12);
  EXPECT_EQ(AfterAFailure().ExpectedStep(12), 13);
  EXPECT_EQ(AfterAFailure().ExpectedStep(100), 101);
}

TEST(StepReservations, AReservationMayFailAfterItsIncrement) {
  StepReservations reservations;
  ReserveAt(10, &reservations);
  ReserveAt(10, &reservations);
  reservations.End();                            // It had made its increment,
  EXPECT_GE(reservations.ExpectedStep(11), 12);  // so another one is to come.
  reservations.End();
  EXPECT_EQ(reservations.ExpectedStep(12), 12);
}

TEST(StepReservations, ForeignIncrementsAreNoticedAsSoonAsNothingIsUnderWay) {
  StepReservations reservations;
  ReserveAt(10, &reservations);
  EXPECT_GE(reservations.ExpectedStep(15), 15);
  reservations.End();
  EXPECT_EQ(reservations.ExpectedStep(16), 16);
}

TEST(StepReservations, AStepThatWasSetBackIsNoticedWhileSomethingIsUnderWay) {
  StepReservations reservations;
  ReserveAt(1000, &reservations);
  EXPECT_EQ(reservations.ExpectedStep(0), 1);
}

TEST(StepReservations, StopsAtTheLastStep) {
  StepReservations reservations;
  EXPECT_EQ(reservations.ExpectedStep(kMax), kMax);
  reservations.Reserve();
  EXPECT_EQ(reservations.ExpectedStep(kMax), kMax);
}

// A variable and its reservations, some of which have made their increment.
class Model {
 public:
  explicit Model(uint32_t seed) : random_(seed) {}

  int64_t step = 0;
  StepReservations reservations;

  void Reserve() {
    ReserveAt(step, &reservations);
    ++num_waiting_;
  }
  void Increment() {
    if (num_waiting_ == 0) return;
    --num_waiting_;
    ++num_incremented_;
    ++step;
  }
  void EndApplied() {
    if (num_incremented_ == 0) return;
    --num_incremented_;
    reservations.End();
  }
  void Fail() {
    int64_t& some = Pick(2) == 0 ? num_waiting_ : num_incremented_;
    if (some == 0) return;
    --some;
    reservations.End();
  }
  uint32_t Pick(uint32_t n) { return random_() % n; }

 private:
  std::mt19937 random_;
  int64_t num_waiting_ = 0;
  int64_t num_incremented_ = 0;
};

TEST(StepReservations, IsExactAgainWhenNothingIsUnderWayWhateverWasWritten) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Model model(seed);
    int num_idle = 0;
    for (int i = 0; i < 500; ++i) {
      switch (model.Pick(5)) {
        case 0:
          model.Reserve();
          break;
        case 1:
          model.Increment();
          break;
        case 2:
          model.Fail();
          break;
        case 3:
          model.step += static_cast<int64_t>(model.Pick(7)) - 3;
          break;
        default:
          model.EndApplied();
      }
      const int64_t reach = model.reservations.ExpectedStep(model.step);
      ASSERT_GE(reach, model.step) << "seed " << seed;
      if (model.reservations.num_open() == 0) {
        ASSERT_EQ(reach, model.step) << "seed " << seed;
        ++num_idle;
      }
    }
    ASSERT_GT(num_idle, 0);
  }
}

}  // namespace
}  // namespace condacc
