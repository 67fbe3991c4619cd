// Stands in for cc/core/base/mutex.h, whose include guard it has: the locks of fibers. Each lock,
// unlock, wait and notification is a scheduling point.
#ifndef CONDACC_CORE_BASE_MUTEX_H_
#define CONDACC_CORE_BASE_MUTEX_H_

#include "tests/cc/explorer/fibers/fibers.h"

#define CONDACC_ANNOTATE(x)
#define CONDACC_CAPABILITY(name)
#define CONDACC_SCOPED_CAPABILITY
#define CONDACC_GUARDED_BY(mutex)
#define CONDACC_REQUIRES(mutex)
#define CONDACC_REACQUIRES(mutex)
#define CONDACC_EXCLUDES(mutex)
#define CONDACC_ACQUIRE(...)
#define CONDACC_RELEASE(...)

namespace condacc {

class Mutex {
 public:
  void Lock() { explorer::Lock(&owner_); }
  void Unlock() {
    explorer::Unlock(&owner_);
    explorer::Point("unlocks");
  }

 private:
  friend class CondVar;
  const void* owner_ = nullptr;
};

class MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) : mutex_(*mutex) { mutex_.Lock(); }
  ~MutexLock() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class MutexUnlock {
 public:
  explicit MutexUnlock(Mutex* mutex) : mutex_(*mutex) { mutex_.Unlock(); }
  ~MutexUnlock() { mutex_.Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  void Wait(Mutex* mutex) {
    explorer::Unlock(&mutex->owner_);
    explorer::BlockOn(this, "waits");
    mutex->Lock();
  }
  void NotifyAll() {
    explorer::Wake(this);
    explorer::Point("notifies");
  }
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_MUTEX_H_
