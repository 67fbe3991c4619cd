// Shares loops among threads.
#ifndef CONDACC_CORE_BASE_THREAD_TEAM_H_
#define CONDACC_CORE_BASE_THREAD_TEAM_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace condacc {

// A thread that has loops to share, and helpers that take part in them. Helpers stay with the team
// from one loop to the next, because a merge of a few hundred microseconds has four loops, and
// waking a thread for each of them would take as long as some of the loops. A helper that waits in
// vain for the next loop soon leaves; it is called again when there is one.
//
// No loop waits for a helper that has not come yet, so it does not matter whether helpers ever do.
// Not thread-safe.
class ThreadTeam {
 public:
  // Calls the function on another thread, now or later. May throw std::bad_alloc instead.
  using Schedule = std::function<void(std::function<void()> function)>;

  // Allocates nothing. `schedule` is called for at most `max_helpers` helpers at a time.
  ThreadTeam(size_t max_helpers, Schedule schedule);
  // The helpers leave. Functions that were scheduled may be called afterwards, and do nothing.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Does what a ParallelFor does. `body` must not throw. If memory for helpers is refused, the loop
  // does without them.
  void For(size_t total, size_t chunk, const std::function<void(size_t, size_t)>& body);

 private:
  class Members;

  // Returns false if memory for the members is refused.
  bool HasMembers();
  // Calls as many helpers as are missing.
  void CallHelpers(size_t num_wanted);

  const size_t max_helpers_;
  const Schedule schedule_;
  std::shared_ptr<Members> members_;  // Null before the first loop.
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_THREAD_TEAM_H_
