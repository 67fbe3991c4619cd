// Lists of operations that wait, and their completion after the lock has been released.
#ifndef CONDACC_CORE_BASE_WAIT_LIST_H_
#define CONDACC_CORE_BASE_WAIT_LIST_H_

#include <list>
#include <memory>
#include <utility>

#include "cc/core/base/mutex.h"

namespace condacc {

// Operations that wait, first in, first out, or whose wait has ended. The list keeps them alive.
template <class T>
using WaitList = std::list<std::shared_ptr<T>>;

// The base class of an operation `T` that can wait in a WaitList<T>, and leave it at any time. Only
// its constructor allocates; no method can fail. Its members are guarded by the lock that guards
// the list.
//
// Example:
//
//   class Door {
//    public:
//     void Await(const std::shared_ptr<Visitor>& visitor) {
//       CompletingLock lock(&mu_, &ended_);
//       is_open_ ? visitor->EndWait(&ended_) : visitor->BeginWait(&waiting_);
//     }
//     void Open() {
//       CompletingLock lock(&mu_, &ended_);
//       is_open_ = true;
//       while (!waiting_.empty()) waiting_.front()->EndWait(&ended_);
//     }  // Visitor::Complete() is called for each of them, in order, without the lock.
//
//    private:
//     Mutex mu_;
//     bool is_open_ CONDACC_GUARDED_BY(mu_) = false;
//     WaitList<Visitor> waiting_ CONDACC_GUARDED_BY(mu_);
//     WaitList<Visitor> ended_ CONDACC_GUARDED_BY(mu_);
//   };
template <class T>
class Waiter : public std::enable_shared_from_this<T> {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  bool is_waiting() const { return list_ != nullptr; }

  // Appends the operation, which is in no list and has not ended, to `list`.
  void BeginWait(WaitList<T>* list) noexcept {
    MoveTo(list);
    list_ = list;
  }
  // Appends the operation, which may have waited, to the list of a CompletingLock.
  void EndWait(WaitList<T>* ended) noexcept {
    MoveTo(ended);
    list_ = nullptr;
  }
  // Removes the operation from the list in which it waits.
  std::shared_ptr<T> Leave() noexcept {
    MoveTo(&node_);
    list_ = nullptr;
    return std::move(node_.front());
  }

 private:
  void MoveTo(WaitList<T>* to) noexcept {
    *position_ = this->shared_from_this();
    to->splice(to->end(), list_ == nullptr ? node_ : *list_, position_);
  }

  WaitList<T>* list_ = nullptr;  // The list in which the operation waits.
  WaitList<T> node_{nullptr};    // The operation's element, while it is in no other list.
  const typename WaitList<T>::iterator position_ = node_.begin();
};

// Holds a lock. The destructor releases the lock, and then completes the operations in `ended`.
template <class T>
class CONDACC_SCOPED_CAPABILITY CompletingLock {
 public:
  CompletingLock(Mutex* mutex, WaitList<T>* ended) CONDACC_ACQUIRE(mutex)
      : mutex_(*mutex), ended_(*ended) {
    mutex_.Lock();
  }
  ~CompletingLock() CONDACC_RELEASE() {
    WaitList<T> ended;
    ended.swap(ended_);
    mutex_.Unlock();
    for (; !ended.empty(); ended.pop_front()) ended.front()->Complete();
  }
  CompletingLock(const CompletingLock&) = delete;
  CompletingLock& operator=(const CompletingLock&) = delete;

 private:
  Mutex& mutex_;
  WaitList<T>& ended_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_WAIT_LIST_H_
