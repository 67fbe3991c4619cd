// A reference to a function.
#ifndef CONDACC_CORE_BASE_FUNCTION_REF_H_
#define CONDACC_CORE_BASE_FUNCTION_REF_H_

#include <memory>
#include <utility>

namespace condacc {

template <typename Signature>
class FunctionRef;

// Refers to something that can be called and that outlives the reference. Unlike std::function, it
// never allocates, so that code that must not throw can pass functions with any captures.
//
// Example:
//   void ForEach(FunctionRef<void(int value)> visit) noexcept;
//   ForEach([&](int value) { sum += value; });
template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename Function>
  FunctionRef(const Function& function)  // NOLINT(google-explicit-constructor)
      : function_(std::addressof(function)), call_([](const void* each, Args... args) -> Result {
          return (*static_cast<const Function*>(each))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(function_, std::forward<Args>(args)...); }

 private:
  const void* function_;
  Result (*call_)(const void* function, Args... args);
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_FUNCTION_REF_H_
