// Marks states and transitions of the core whose coverage by tests is measured.
#ifndef CONDACC_CORE_BASE_REACHED_H_
#define CONDACC_CORE_BASE_REACHED_H_

// Notes that a state was reached: its name, and up to three numbers that distinguish states of the
// same name. The arguments must have no side effects. Only the explorer of schedules evaluates
// them; it has a header of its own in place of this one.
#define CONDACC_REACHED(...) static_cast<void>(0)

#endif  // CONDACC_CORE_BASE_REACHED_H_
