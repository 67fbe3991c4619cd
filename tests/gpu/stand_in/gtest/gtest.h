// A stand-in for GoogleTest on machines that do not have it: what the launchers' tests use of it.
//
// TEST, TEST_F, EXPECT_*, ASSERT_*, SCOPED_TRACE, GTEST_SKIP and --gtest_filter do what they do
// there. main() is in tests/gpu/stand_in/main.cc.
#ifndef CONDACC_TESTS_GPU_STAND_IN_GTEST_GTEST_H_
#define CONDACC_TESTS_GPU_STAND_IN_GTEST_GTEST_H_

#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace testing {

// Text that is put together by <<.
class Message {
 public:
  template <typename T>
  Message& operator<<(const T& value) {
    text_ << value;
    return *this;
  }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

inline std::ostream& operator<<(std::ostream& stream, const Message& message) {
  return stream << message.text();
}

class Test {
 public:
  virtual ~Test() = default;
  // Runs SetUp(), and the test unless that has skipped it or failed.
  void Run();
  // Returns whether an ASSERT_* of the running test has failed.
  static bool HasFatalFailure();

 protected:
  virtual void SetUp() {}

 private:
  virtual void TestBody() = 0;
};

namespace stand_in {

enum class Kind { kFailure, kFatalFailure, kSkip };

// The result of an EXPECT_* or ASSERT_*. An empty text is no failure.
struct Finding {
  std::string text;
  explicit operator bool() const { return text.empty(); }
};

// Notes that a test has failed or is skipped, when the message that belongs to it is assigned.
class Outcome {
 public:
  Outcome(Kind kind, const char* file, int line, std::string text)
      : kind_(kind), file_(file), line_(line), text_(std::move(text)) {}
  void operator=(const Message& message) const;

 private:
  Kind kind_;
  const char* file_;
  int line_;
  std::string text_;
};

// Adds a line to the failures in its scope.
class Trace {
 public:
  template <typename T>
  explicit Trace(const T& text) {
    Push((Message() << text).text());
  }
  ~Trace();

 private:
  static void Push(std::string text);
};

struct Registration {
  Registration(std::string name, std::function<std::unique_ptr<Test>()> make);
};

template <typename T, typename = void>
struct CanBePrinted : std::false_type {};
template <typename T>
struct CanBePrinted<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<T>())>>
    : std::true_type {};

template <typename T>
std::string Printed(const T& value) {
  if constexpr (CanBePrinted<T>::value) {
    return (Message() << value).text();
  } else {
    return "a value of " + std::to_string(sizeof(T)) + " bytes";
  }
}

template <typename A, typename B, typename Compare>
Finding Compared(const A& a, const B& b, const Compare& compare, const char* text) {
  if (compare(a, b)) return {};
  return {std::string("expected ") + text + ", got " + Printed(a) + " and " + Printed(b)};
}

inline Finding ComparedText(const char* a, const char* b, const char* text) {
  if (std::strcmp(a, b) == 0) return {};
  return {std::string("expected ") + text + ", got \"" + a + "\" and \"" + b + "\""};
}

inline Finding IsTrue(bool value, const char* text) {
  if (value) return {};
  return {std::string("expected ") + text};
}

}  // namespace stand_in
}  // namespace testing

// The else belongs to the first if, and what follows the macro is streamed into the message.
#define STAND_IN_CHECK(finding, on_failure, kind)                                               \
  if (const ::testing::stand_in::Finding stand_in_found = (finding)) {                          \
  } else /* NOLINT */                                                                           \
    on_failure::testing::stand_in::Outcome(::testing::stand_in::Kind::kind, __FILE__, __LINE__, \
                                           stand_in_found.text) = ::testing::Message()
#define STAND_IN_EXPECT(finding) STAND_IN_CHECK(finding, , kFailure)
#define STAND_IN_ASSERT(finding) STAND_IN_CHECK(finding, return, kFatalFailure)
#define STAND_IN_COMPARED(a, b, functor, sign) \
  ::testing::stand_in::Compared(a, b, functor{}, #a " " sign " " #b)

#define EXPECT_EQ(a, b) STAND_IN_EXPECT(STAND_IN_COMPARED(a, b, std::equal_to<>, "=="))
#define EXPECT_NE(a, b) STAND_IN_EXPECT(STAND_IN_COMPARED(a, b, std::not_equal_to<>, "!="))
#define EXPECT_LE(a, b) STAND_IN_EXPECT(STAND_IN_COMPARED(a, b, std::less_equal<>, "<="))
#define EXPECT_GE(a, b) STAND_IN_EXPECT(STAND_IN_COMPARED(a, b, std::greater_equal<>, ">="))
#define EXPECT_TRUE(a) STAND_IN_EXPECT(::testing::stand_in::IsTrue(static_cast<bool>(a), #a))
#define EXPECT_STREQ(a, b) STAND_IN_EXPECT(::testing::stand_in::ComparedText(a, b, #a " == " #b))

#define ASSERT_EQ(a, b) STAND_IN_ASSERT(STAND_IN_COMPARED(a, b, std::equal_to<>, "=="))
#define ASSERT_TRUE(a) STAND_IN_ASSERT(::testing::stand_in::IsTrue(static_cast<bool>(a), #a))
#define ASSERT_STREQ(a, b) STAND_IN_ASSERT(::testing::stand_in::ComparedText(a, b, #a " == " #b))

#define GTEST_SKIP()                                                                              \
  return ::testing::stand_in::Outcome(::testing::stand_in::Kind::kSkip, __FILE__, __LINE__, "") = \
             ::testing::Message()

#define STAND_IN_NAME_AT(line) stand_in_trace_##line
#define STAND_IN_TRACE_AT(line, text) const ::testing::stand_in::Trace STAND_IN_NAME_AT(line)(text)
#define SCOPED_TRACE(text) STAND_IN_TRACE_AT(__LINE__, text)

#define STAND_IN_TEST(suite, name, base)                                                    \
  class suite##_##name : public base {                                                      \
    void TestBody() override;                                                               \
  };                                                                                        \
  static const ::testing::stand_in::Registration suite##_##name##_registration(             \
      #suite "." #name,                                                                     \
      [] { return std::unique_ptr<::testing::Test>(std::make_unique<suite##_##name>()); }); \
  void suite##_##name::TestBody()
#define TEST(suite, name) STAND_IN_TEST(suite, name, ::testing::Test)
#define TEST_F(suite, name) STAND_IN_TEST(suite, name, suite)

#endif  // CONDACC_TESTS_GPU_STAND_IN_GTEST_GTEST_H_
