// Switches mutants on; see mutate.py. Included before each source of a build with mutants.
#ifndef CONDACC_TESTS_MUTANTS_H_
#define CONDACC_TESTS_MUTANTS_H_

#include <cstdlib>

namespace mutants {

// The number of the mutant that is on: the environment variable CONDACC_MUTANT, or none.
inline int Number() {
  static const int number = [] {
    const char* const text = std::getenv("CONDACC_MUTANT");
    return text == nullptr ? -1 : std::atoi(text);
  }();
  return number;
}
inline bool IsOn(int number) { return Number() == number; }

// Returns true, but if the mutant is on only every other time.
inline bool Again(int number) {
  if (!IsOn(number)) return true;
  static thread_local bool again = false;
  return again = !again;
}

// `a < Compare{n, 0, 1, 3} < b` is `a < b`, but `a <= b` if mutant n is on, and `a >= b` if the
// next one is. The codes are those of mutate.py.
struct Compare {
  int number;
  int before;
  int after;
  int after_next;

  int code() const {
    return IsOn(number) ? after : IsOn(number + 1) && after_next != after ? after_next : before;
  }
};
template <class T>
struct Compared {
  const T& left;
  Compare by;

  template <class U>
  bool With(const U& right) const {
    switch (by.code()) {
      case 4:
        return left == right;
      case 5:
        return !(left == right);
      default:
        break;
    }
    return WithOrder(right, 0);
  }
  // Only for types that have an order.
  template <class U>
  auto WithOrder(const U& right, int) const -> decltype(this->left < right) {
    switch (by.code()) {
      case 0:
        return left < right;
      case 1:
        return left <= right;
      case 2:
        return left > right;
      default:
        return left >= right;
    }
  }
  template <class U>
  bool WithOrder(const U& /*right*/, long) const {
    std::abort();
  }
};

#define MUTANTS_OPERATOR(op)                                  \
  template <class T>                                          \
  Compared<T> operator op(const T& left, Compare by) {        \
    return {left, by};                                        \
  }                                                           \
  template <class T, class U>                                 \
  bool operator op(const Compared<T>& left, const U& right) { \
    return left.With(right);                                  \
  }
MUTANTS_OPERATOR(<)
MUTANTS_OPERATOR(<=)
MUTANTS_OPERATOR(>)
MUTANTS_OPERATOR(>=)
MUTANTS_OPERATOR(==)
MUTANTS_OPERATOR(!=)
#undef MUTANTS_OPERATOR

}  // namespace mutants

#endif  // CONDACC_TESTS_MUTANTS_H_
