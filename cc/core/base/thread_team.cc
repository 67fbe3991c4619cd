#include "cc/core/base/thread_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "cc/core/base/mutex.h"
#include "cc/core/base/parallel_for.h"

namespace condacc {
namespace {

using Clock = std::chrono::steady_clock;

// How long a thread polls before it sleeps: about as long as it takes to sleep and be woken.
constexpr Clock::duration kMaxPolling = std::chrono::microseconds(100);
// Helpers that have not come are called again after this time; each further interval is twice as
// long.
constexpr Clock::duration kPatience = std::chrono::microseconds(200);

// Waits until is_over() returns true, but no longer than kMaxPolling. Meanwhile, other threads may
// have the processor.
template <typename Condition>
void SpinUntil(Condition is_over) {
  for (const Clock::time_point begin = Clock::now();
       !is_over() && Clock::now() - begin < kMaxPolling;) {
    std::this_thread::yield();
  }
}

}  // namespace

// A loop that threads share.
class ThreadTeam::Loop {
 public:
  Loop(size_t total, size_t chunk, LoopBody body) : total_(total), chunk_(chunk), body_(body) {}

  // Runs a chunk. Returns false if none is left.
  bool RunChunk() {
    const size_t begin = next_.fetch_add(chunk_);
    if (begin >= total_) return false;
    body_(begin, std::min(total_, begin + chunk_));
    return true;
  }

 private:
  const size_t total_;
  const size_t chunk_;
  const LoopBody body_;
  std::atomic<size_t> next_{0};
};

// The state that the team's thread shares with its helpers, which may outlive the team. This class
// is thread-safe.
class ThreadTeam::SharedState {
 public:
  explicit SharedState(size_t max_helpers) : max_helpers_(max_helpers) {}

  void Begin(Loop* loop) CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    loop_ = loop;
    generation_.fetch_add(1);
  }

  // Returns how many helpers are here.
  size_t num_helpers() CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return num_helpers_;
  }

  // Ends the loop. Waits for the helpers that are at it.
  void End() CONDACC_EXCLUDES(mu_) {
    {
      MutexLock lock(&mu_);
      loop_ = nullptr;
    }
    const auto is_idle = [this] { return num_busy_.load() == 0; };
    SpinUntil(is_idle);
    if (is_idle()) return;
    MutexLock lock(&mu_);
    while (!is_idle()) idle_.Wait(&mu_);
  }

  void Dissolve() CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    is_dissolved_ = true;
    generation_.fetch_add(1);
  }

  // Makes the calling thread a helper: it takes part in the team's loops until it has waited in
  // vain for the next one, or the team has ended. Returns at once if the team has enough helpers.
  void Help() CONDACC_EXCLUDES(mu_) {
    {
      MutexLock lock(&mu_);
      if (num_helpers_ == max_helpers_) return;
      ++num_helpers_;
    }
    uint64_t seen = 0;
    while (true) {
      Loop* loop = nullptr;
      {
        MutexLock lock(&mu_);
        if (seen == generation_.load() || is_dissolved_) {
          --num_helpers_;
          return;
        }
        seen = generation_.load();
        loop = loop_;
        if (loop != nullptr) num_busy_.fetch_add(1);
      }
      if (loop != nullptr) {
        while (loop->RunChunk()) {
        }
        MutexLock lock(&mu_);
        if (num_busy_.fetch_sub(1) == 1) idle_.NotifyAll();
      }
      SpinUntil([this, seen] { return seen != generation_.load(); });
    }
  }

 private:
  const size_t max_helpers_;
  Mutex mu_;
  CondVar idle_;
  Loop* loop_ CONDACC_GUARDED_BY(mu_) = nullptr;  // Null between loops.
  bool is_dissolved_ CONDACC_GUARDED_BY(mu_) = false;
  size_t num_helpers_ CONDACC_GUARDED_BY(mu_) = 0;
  // These change under the lock only, and are also read without it.
  std::atomic<uint64_t> generation_{0};  // Grows when a loop begins, and when the team ends.
  std::atomic<size_t> num_busy_{0};      // Helpers that are at a loop.
};

ThreadTeam::ThreadTeam(size_t max_helpers, Schedule schedule)
    : max_helpers_(max_helpers), schedule_(std::move(schedule)) {}

ThreadTeam::~ThreadTeam() {
  if (state_ != nullptr) state_->Dissolve();
}

void ThreadTeam::For(size_t total, size_t chunk, LoopBody body) {
  const size_t num_wanted = total <= chunk ? 0 : std::min(max_helpers_, (total - 1) / chunk);
  if (num_wanted == 0) return body(0, total);
  try {
    if (state_ == nullptr) state_ = std::make_shared<SharedState>(max_helpers_);
  } catch (const std::bad_alloc&) {
    return body(0, total);
  }
  Loop loop(total, chunk, body);
  state_->Begin(&loop);
  CallHelpers(num_wanted);
  Clock::duration patience = kPatience;
  for (Clock::time_point next_call = Clock::now() + patience; loop.RunChunk();) {
    if (Clock::now() < next_call) continue;
    CallHelpers(num_wanted);
    patience *= 2;
    next_call += patience;
  }
  state_->End();
}

// Helpers that have been called and have not come are called again, on other threads: the thread
// that was to help may be waiting for the processor that the team's own thread uses. If the pool
// has no room for a function, it calls it at once, on the team's own thread, which must not help
// itself.
void ThreadTeam::CallHelpers(size_t num_wanted) {
  const std::thread::id own = std::this_thread::get_id();
  try {
    for (size_t i = state_->num_helpers(); i < num_wanted; ++i) {
      schedule_([state = state_, own] {
        if (std::this_thread::get_id() != own) state->Help();
      });
    }
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace condacc
