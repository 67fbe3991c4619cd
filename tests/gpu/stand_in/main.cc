// The rest of the stand-in for GoogleTest: it keeps the tests, and runs those that a filter names.
#include <fnmatch.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace testing {
namespace stand_in {
namespace {

struct Case {
  std::string name;
  std::function<std::unique_ptr<Test>()> make;
};

std::vector<Case>& Cases() {
  static auto* const cases = new std::vector<Case>;
  return *cases;
}

// The state of the running test.
struct State {
  bool has_failed = false;
  bool has_failed_fatally = false;
  bool is_skipped = false;
  std::vector<std::string> traces;
} state;

bool MatchesOneOf(const std::string& patterns, const std::string& name) {
  std::istringstream stream(patterns);
  for (std::string pattern; std::getline(stream, pattern, ':');) {
    if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

// A filter is "PATTERN:PATTERN-PATTERN:PATTERN"; tests that match one behind the minus are left
// out.
bool IsChosen(const std::string& filter, const std::string& name) {
  const size_t minus = filter.find('-');
  const std::string wanted = filter.substr(0, minus);
  const std::string unwanted = minus == std::string::npos ? "" : filter.substr(minus + 1);
  return (wanted.empty() || MatchesOneOf(wanted, name)) && !MatchesOneOf(unwanted, name);
}

void RunOne(const Case& one) {
  std::printf("[ RUN      ] %s\n", one.name.c_str());
  std::fflush(stdout);
  state = State();
  const auto begin = std::chrono::steady_clock::now();
  one.make()->Run();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  const char* const result = state.has_failed   ? "[  FAILED  ]"
                             : state.is_skipped ? "[  SKIPPED ]"
                                                : "[       OK ]";
  std::printf("%s %s (%.0f ms)\n", result, one.name.c_str(), took.count());
  std::fflush(stdout);
}

int RunAll(const std::string& filter) {
  int num_run = 0;
  int num_failed = 0;
  for (const Case& one : Cases()) {
    if (!IsChosen(filter, one.name)) continue;
    RunOne(one);
    ++num_run;
    num_failed += state.has_failed ? 1 : 0;
  }
  std::printf("%d tests, %d failed\n", num_run, num_failed);
  return num_failed == 0 && num_run > 0 ? 0 : 1;
}

}  // namespace

Registration::Registration(std::string name, std::function<std::unique_ptr<Test>()> make) {
  Cases().push_back({std::move(name), std::move(make)});
}

void Outcome::operator=(const Message& message) const {
  std::printf("%s:%d: %s%s%s\n", file_, line_,
              kind_ == Kind::kSkip ? "skipped: " : "Failure: ", text_.c_str(),
              (" " + message.text()).c_str());
  if (kind_ == Kind::kSkip) {
    state.is_skipped = true;
    return;
  }
  for (const std::string& trace : state.traces) std::printf("    %s\n", trace.c_str());
  state.has_failed = true;
  if (kind_ == Kind::kFatalFailure) state.has_failed_fatally = true;
}

void Trace::Push(std::string text) { state.traces.push_back(std::move(text)); }
Trace::~Trace() { state.traces.pop_back(); }

}  // namespace stand_in

void Test::Run() {
  SetUp();
  if (!stand_in::state.is_skipped && !stand_in::state.has_failed_fatally) TestBody();
}

bool Test::HasFatalFailure() { return stand_in::state.has_failed_fatally; }

}  // namespace testing

int main(int argc, char** argv) {
  constexpr char kFilter[] = "--gtest_filter=";
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kFilter, sizeof(kFilter) - 1) == 0) {
      filter = argv[i] + sizeof(kFilter) - 1;
    }
  }
  return testing::stand_in::RunAll(filter);
}
