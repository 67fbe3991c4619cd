#include "tests/cc/fuzz/states.h"

#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/sparse/sparse_sum.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/recorded_take.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {
namespace {

constexpr int64_t kStateRows = 20;
constexpr int64_t kStateColumns = 3;
constexpr int64_t kStateContributors = 6;

Accumulator::Options StateOptions(uint8_t byte) {
  const ElementType types[] = {ElementType::kFloat32, ElementType::kFloat16, ElementType::kInt64};
  Accumulator::Options options;
  const bool is_sparse = byte % 2 == 1;
  options.new_sum = is_sparse ? NewSparseSum<HostRows> : NewDenseSum;
  options.sum.type = types[byte / 2 % 3];
  if (byte / 6 % 2 == 1) {
    options.sum.shape = Shape::Of({is_sparse ? kStateRows : kStateColumns});
  }
  if (byte / 12 % 2 == 1) options.sum.num_contributors = kStateContributors;
  options.sum.reduction = IsInteger(options.sum.type) ? Reduction::kSum : Reduction::kMean;
  return options;
}

std::string Saved(Accumulator& accumulator, Workspace& workspace) {
  struct alignas(64) Block {
    char bytes[64];
  };
  std::vector<Block> blocks;
  size_t size = 0;
  const auto allocate = [&](size_t num_bytes, char** memory) {
    blocks.resize(num_bytes / sizeof(Block) + 1);
    size = num_bytes;
    *memory = blocks[0].bytes;
    return Status();
  };
  if (!accumulator.Save(workspace, allocate).ok()) return "it cannot be saved";
  return std::string(reinterpret_cast<const char*>(blocks.data()), size);
}

}  // namespace

std::string ValidState(uint8_t options, uint32_t seed) {
  std::mt19937 random(seed);
  TestWorkspace workspace;
  Accumulator accumulator(StateOptions(options));
  const bool is_sparse = options % 2 == 1;
  for (uint32_t i = random() % 5; i > 0; --i) {
    Gradient gradient;
    const int64_t num_rows = is_sparse ? random() % 4 : 1;
    const auto num_bytes =
        static_cast<size_t>(num_rows * kStateColumns) * SizeOf(accumulator.options().sum.type);
    gradient.values = TestBuffer::Owning(num_bytes);
    std::memset(gradient.values.data(), 0, num_bytes);
    gradient.shape = is_sparse ? Shape::Of({num_rows, kStateColumns}) : Shape::Of({kStateColumns});
    gradient.owned = gradient.owns_indices = true;
    gradient.weight = random() % 3;
    if (is_sparse) {
      gradient.indices_shape = Shape::Of({num_rows});
      gradient.indices = TestBuffer::Owning(static_cast<size_t>(num_rows) * sizeof(int64_t));
      for (int64_t k = 0; k < num_rows; ++k) {
        static_cast<int64_t*>(gradient.indices.data())[k] = random() % kStateRows;
      }
    }
    std::optional<int64_t> contributor;
    if (accumulator.options().sum.in_order_of_contributors()) {
      contributor = random() % kStateContributors;  // Those that repeat are not added.
    } else if (random() % 2 == 0) {
      contributor = i;
    }
    accumulator.Apply(0, By(contributor, std::move(gradient)), workspace).ok();
  }
  return std::string(1, static_cast<char>(options)) + Saved(accumulator, workspace);
}

std::string WrongStateIn(const uint8_t* bytes, size_t size) {
  if (size == 0) return "";
  TestWorkspace workspace;
  Accumulator accumulator(StateOptions(bytes[0]));
  accumulator.SetGlobalStep(7);
  const std::string before = Saved(accumulator, workspace);
  // The bytes are a copy of exactly this size, so that a sanitizer sees reads beyond it.
  const std::vector<char> state(bytes + 1, bytes + size);
  Status status;
  try {
    status = accumulator.Restore(state.data(), state.size(), workspace);
  } catch (const std::bad_alloc&) {
    return "it needs too much memory";
  }
  const std::string after = Saved(accumulator, workspace);
  if (!status.ok()) {
    if (status.code() != StatusCode::kInvalidArgument) return status.message();
    return after == before ? "" : "an error changes the accumulator: " + status.message();
  }
  if (after.size() != state.size()) return "it is saved as fewer or more bytes";
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] != state[i]) return "it is saved with another byte at " + std::to_string(i);
  }
  if (accumulator.num_accumulated() == 0) return "";
  RecordedTake take(1);
  accumulator.Request(take.ptr(), nullptr, workspace);
  const bool is_right = take.is_served() || take.status().code() == StatusCode::kOutOfRange;
  return is_right ? "" : "a take fails: " + take.status().message();
}

}  // namespace condacc
