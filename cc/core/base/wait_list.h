// Lists of operations that wait, and their completion after the lock has been released.
#ifndef CONDACC_CORE_BASE_WAIT_LIST_H_
#define CONDACC_CORE_BASE_WAIT_LIST_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "cc/core/base/mutex.h"

namespace condacc {

template <class T>
class WaitList;
template <class T>
class EndedWaits;

// The base class of an operation `T` that can wait in a WaitList<T>. Its members are guarded by the
// lock that guards the list.
template <class T>
class Waiter {
 public:
  bool is_waiting() const { return list_ != nullptr; }

 private:
  friend class WaitList<T>;
  friend class EndedWaits<T>;

  WaitList<T>* list_ = nullptr;
  T* previous_ = nullptr;
  T* next_ = nullptr;
  std::shared_ptr<T> self_;  // Keeps the operation alive while it is in a list.
};

// Operations that wait, first in, first out. Any of them can leave early. The list is intrusive, so
// no method needs memory or can fail. Not thread-safe.
//
// Example:
//
//   class Door {
//    public:
//     void Await(std::shared_ptr<Visitor> visitor) {
//       CompletingLock lock(&mu_, &ended_);
//       is_open_ ? ended_.Add(std::move(visitor)) : waiting_.PushBack(std::move(visitor));
//     }
//     void Open() {
//       CompletingLock lock(&mu_, &ended_);
//       is_open_ = true;
//       while (!waiting_.empty()) ended_.Add(waiting_.PopFront());
//     }  // Visitor::Complete() is called for each of them, in order, without the lock.
//
//    private:
//     Mutex mu_;
//     bool is_open_ CONDACC_GUARDED_BY(mu_) = false;
//     WaitList<Visitor> waiting_ CONDACC_GUARDED_BY(mu_);
//     EndedWaits<Visitor> ended_ CONDACC_GUARDED_BY(mu_);
//   };
template <class T>
class WaitList {
 public:
  WaitList() = default;
  ~WaitList() {
    while (!empty()) PopFront();
  }
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  bool empty() const { return first_ == nullptr; }
  size_t size() const { return size_; }
  // Returns the operation that has waited longest, or null if none waits.
  T* front() const { return first_; }

  // Appends `wait`, which must not be in a list. The list keeps it alive.
  void PushBack(std::shared_ptr<T> wait) noexcept {
    T* const added = wait.get();
    added->list_ = this;
    added->previous_ = last_;
    added->next_ = nullptr;
    added->self_ = std::move(wait);
    (last_ == nullptr ? first_ : last_->next_) = added;
    last_ = added;
    ++size_;
  }

  std::shared_ptr<T> PopFront() noexcept { return Remove(first_); }

  // Iterates over the operations in order. The body of a loop may remove the current one.
  class Iterator {
   public:
    explicit Iterator(T* wait) : wait_(wait), next_(wait == nullptr ? nullptr : wait->next_) {}
    T* operator*() const { return wait_; }
    Iterator& operator++() { return *this = Iterator(next_); }
    bool operator!=(const Iterator& other) const { return wait_ != other.wait_; }

   private:
    T* wait_;
    T* next_;
  };
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(nullptr); }

  // Removes an operation from whichever list it waits in.
  static std::shared_ptr<T> Remove(T* wait) noexcept {
    WaitList& list = *wait->list_;
    (wait->previous_ == nullptr ? list.first_ : wait->previous_->next_) = wait->next_;
    (wait->next_ == nullptr ? list.last_ : wait->next_->previous_) = wait->previous_;
    --list.size_;
    wait->list_ = nullptr;
    wait->previous_ = wait->next_ = nullptr;
    return std::move(wait->self_);
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
  size_t size_ = 0;
};

// Operations whose wait has ended, and whose T::Complete() has yet to be called. Not thread-safe.
template <class T>
class EndedWaits {
 public:
  EndedWaits() = default;
  // Completes them in the order in which they were added.
  ~EndedWaits() {
    while (first_ != nullptr) {
      const std::shared_ptr<T> ended = std::move(first_->self_);
      first_ = std::exchange(ended->next_, nullptr);
      ended->Complete();
    }
  }
  EndedWaits(EndedWaits&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), last_(other.last_) {}
  EndedWaits& operator=(EndedWaits&&) = delete;

  // Adds `wait`, which must not be in a WaitList any more.
  void Add(std::shared_ptr<T> wait) noexcept {
    T* const added = wait.get();
    added->self_ = std::move(wait);
    (first_ == nullptr ? first_ : last_->next_) = added;
    last_ = added;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;  // Valid only if there is a first one.
};

// Holds a lock. The destructor releases the lock, and then completes the operations whose wait has
// ended.
template <class T>
class CONDACC_SCOPED_CAPABILITY CompletingLock {
 public:
  CompletingLock(Mutex* mutex, EndedWaits<T>* ended) CONDACC_ACQUIRE(mutex)
      : mutex_(*mutex), ended_(*ended) {
    mutex_.Lock();
  }
  ~CompletingLock() CONDACC_RELEASE() {
    const EndedWaits<T> ended = std::move(ended_);
    mutex_.Unlock();
  }
  CompletingLock(const CompletingLock&) = delete;
  CompletingLock& operator=(const CompletingLock&) = delete;

 private:
  Mutex& mutex_;
  EndedWaits<T>& ended_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_WAIT_LIST_H_
