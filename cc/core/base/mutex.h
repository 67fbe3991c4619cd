// std::mutex and std::condition_variable with clang's thread-safety annotations.
//
// They use the standard types, so that ThreadSanitizer sees every lock.
//
// A thread holds two locks at once only in these orders:
// - that of an accumulator or of a gate, then that of the timers (TimerQueue);
// - that of a staleness gate, then that of its step variable;
// - that of an op that makes handles (HandleOp), then that of TensorFlow's resource manager.
// Completions, timers and reports run without any lock.
#ifndef CONDACC_CORE_BASE_MUTEX_H_
#define CONDACC_CORE_BASE_MUTEX_H_

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define CONDACC_ANNOTATE(x) __attribute__((x))
#else
#define CONDACC_ANNOTATE(x)
#endif

#define CONDACC_CAPABILITY(name) CONDACC_ANNOTATE(capability(name))
#define CONDACC_SCOPED_CAPABILITY CONDACC_ANNOTATE(scoped_lockable)
#define CONDACC_GUARDED_BY(mutex) CONDACC_ANNOTATE(guarded_by(mutex))
#define CONDACC_REQUIRES(mutex) CONDACC_ANNOTATE(requires_capability(mutex))
// Like CONDACC_REQUIRES, for a function that releases the mutex and acquires it again. What the
// mutex guards may be different after the call.
#define CONDACC_REACQUIRES(mutex) CONDACC_REQUIRES(mutex)
#define CONDACC_EXCLUDES(mutex) CONDACC_ANNOTATE(locks_excluded(mutex))
#define CONDACC_ACQUIRE(...) CONDACC_ANNOTATE(acquire_capability(__VA_ARGS__))
#define CONDACC_RELEASE(...) CONDACC_ANNOTATE(release_capability(__VA_ARGS__))

namespace condacc {

class CONDACC_CAPABILITY("mutex") Mutex {
 public:
  void Lock() CONDACC_ACQUIRE() { mutex_.lock(); }
  void Unlock() CONDACC_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class CONDACC_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) CONDACC_ACQUIRE(mutex) : mutex_(*mutex) { mutex_.Lock(); }
  ~MutexLock() CONDACC_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Releases the mutex, which the caller holds, and reacquires it at the end of the scope.
class CONDACC_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex* mutex) CONDACC_RELEASE(mutex) : mutex_(*mutex) { mutex_.Unlock(); }
  ~MutexUnlock() CONDACC_RELEASE() { mutex_.Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Waits for NotifyAll(). May also return without a notification, so callers check their condition
  // in a loop.
  void Wait(Mutex* mutex) CONDACC_REACQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // The same, but waits at most until `deadline`.
  template <class TimePoint>
  void WaitUntil(Mutex* mutex, const TimePoint& deadline) CONDACC_REACQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    changed_.wait_until(lock, deadline);
    lock.release();
  }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_MUTEX_H_
