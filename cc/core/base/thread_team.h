// Shares loops among threads.
#ifndef CONDACC_CORE_BASE_THREAD_TEAM_H_
#define CONDACC_CORE_BASE_THREAD_TEAM_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "cc/core/base/parallel_for.h"

namespace condacc {

// Runs the loops of one thread, with helpers on other threads. Helpers stay with the team from one
// loop to the next, because a merge of a millisecond has four loops, and waking a thread for each
// of them would take as long as some of the loops. A helper that waits in vain for the next loop
// soon leaves; it is called again when there is one.
//
// A loop ends even if no helper ever comes. Not thread-safe.
class ThreadTeam {
 public:
  // Calls the function on another thread, now or later. A function that is called by the team's own
  // thread does nothing. May throw std::bad_alloc instead.
  using Schedule = std::function<void(std::function<void()> function)>;

  // Allocates nothing. At most `max_helpers` helpers work at a time. More may be scheduled, because
  // those that have not come are called again; the surplus does nothing.
  ThreadTeam(size_t max_helpers, Schedule schedule);
  // The helpers leave. Functions that were scheduled may be called afterwards, and do nothing.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Does what a ParallelFor does. `body` must not throw. If memory for helpers is refused, the loop
  // does without them.
  void For(size_t total, size_t chunk, LoopBody body);

 private:
  class Loop;
  class SharedState;

  // Calls as many helpers as have not come.
  void CallHelpers(size_t num_wanted);

  const size_t max_helpers_;
  const Schedule schedule_;
  std::shared_ptr<SharedState> state_;  // Null before the first loop.
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_THREAD_TEAM_H_
