#include "cc/core/accumulator/saved_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "cc/core/accumulator/index_span.h"
#include "cc/core/base/element_type.h"

namespace condacc {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

constexpr char kMagic[8] = {'c', 'o', 'n', 'd', 'a', 'c', 'c', '\0'};
constexpr uint32_t kVersion = 3;
constexpr size_t kAlignment = 64;
constexpr int64_t kMaxRank = 254;                  // That of TensorFlow's tensors.
constexpr size_t kMaxDescription = 1 << 13;        // More than one of this rank needs.
constexpr uint64_t kMaxCount = uint64_t{1} << 53;  // No counter has ever come so far.

Status BadState(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}
Status Damaged(const std::string& what) { return BadState("The saved state is damaged: " + what); }

const char* NameOf(ElementType type) {
  // In the order of the enumeration.
  constexpr const char* kNames[] = {"float16",   "bfloat16",   "float32", "float64",
                                    "complex64", "complex128", "int32",   "int64"};
  return kNames[static_cast<int>(type)];
}

// Describes an accumulator. A state can be restored only to one with the same description.
std::string Describe(SumKind kind, const SumOptions& options) {
  constexpr const char* kReductions[] = {"MEAN", "SUM", "GLOBAL_MEAN"};
  return std::string(kind == SumKind::kSparse ? "a sparse" : "a dense") + " accumulator of dtype " +
         NameOf(options.type) + ", shape " + options.shape.ToString() + " and reduction_type " +
         kReductions[static_cast<int>(options.reduction)] +
         (options.num_contributors == 0
              ? ""
              : ", in the order of " + std::to_string(options.num_contributors) + " contributors");
}

constexpr size_t RoundUp(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }
constexpr size_t kArraysAt = RoundUp(sizeof(StateHeader));

// Sets `*product` to the number of elements of `num_items` rows of values of this shape or, if
// dense, of gradients. Returns false if it is too large, or if a dimension is negative.
bool CountElements(uint64_t num_items, const Shape& values, bool is_sparse, uint64_t* product) {
  *product = num_items;
  for (int i = is_sparse ? 1 : 0; i < values.rank(); ++i) {
    const auto dim = static_cast<uint64_t>(values.dim(i));  // A negative one is too large.
    if (dim > kMaxCount || (dim != 0 && *product > kMaxCount / dim)) return false;
    *product *= dim;
  }
  return *product <= kMaxCount;
}

// Sets where the arrays of a state are. Returns false if one of them is too large, or if the shape
// of the values is not that of a state with such a header. States are written and read by this.
bool LayOut(const StateHeader& header, SumKind kind, ElementType type, const Shape& values,
            StateLayout* layout) {
  const bool is_sparse = kind == SumKind::kSparse;
  const bool has_sum = header.num_gradients > 0;
  const bool has_values = has_sum || header.num_early > 0;
  if (values.has_rank() != has_values || (is_sparse && values.rank() == 0)) return false;
  const uint64_t num_rows = is_sparse && has_values ? static_cast<uint64_t>(values.dim(0)) : 0;
  if (num_rows > (has_sum ? kMaxCount : 0) || (!is_sparse && header.num_early_rows > 0))
    return false;
  uint64_t num_values = 0, num_early_values = 0;
  if (!CountElements(is_sparse ? num_rows : has_sum, values, is_sparse, &num_values) ||
      !CountElements(is_sparse ? header.num_early_rows : header.num_early, values, is_sparse,
                     &num_early_values)) {
    return false;
  }
  const auto num_dims = static_cast<uint64_t>(std::max<int64_t>(header.value_rank, 0));
  const uint64_t sizes[kNumStateArrays] = {
      header.description_size,                             // kDescription
      num_dims * sizeof(int64_t),                          // kDims
      header.num_come * sizeof(int64_t),                   // kContributors
      header.num_early * sizeof(double),                   // kEarlyWeights
      is_sparse ? header.num_early * sizeof(int64_t) : 0,  // kEarlyRows
      num_rows * sizeof(int64_t),                          // kIndices
      num_rows * sizeof(double),                           // kWeights
      num_values * SizeOf(SumTypeOf(type)),                // kValues
      header.num_early_rows * sizeof(int64_t),             // kEarlyIndices
      num_early_values * SizeOf(type),                     // kEarlyValues
  };
  size_t offset = kArraysAt;
  for (int array = 0; array < kNumStateArrays; ++array) {
    layout->offsets[array] = offset;
    layout->ends[array] = offset + sizes[array];
    offset = RoundUp(layout->ends[array]);
  }
  layout->num_bytes = offset;
  return true;
}

// Calls visit(begin, end) for the bytes after the header and each array that nothing uses.
template <class Visit>
void VisitUnused(const StateLayout& layout, Visit visit) {
  visit(sizeof(StateHeader), kArraysAt);
  for (const size_t end : layout.ends) visit(end, RoundUp(end));
}

template <typename T>
T Load(const char* array, uint64_t i) {
  T value;
  std::memcpy(&value, array + i * sizeof(T), sizeof(T));
  return value;
}

Status CheckCounts(const StateHeader& header) {
  const std::pair<const char*, uint64_t> counts[] = {
      {"dropped gradients", static_cast<uint64_t>(header.num_dropped)},
      {"accumulated gradients", static_cast<uint64_t>(header.num_gradients)},
      {"contributors", header.num_come},
      {"early gradients", header.num_early},
      {"rows of early gradients", header.num_early_rows}};
  for (const auto& [what, count] : counts) {
    if (count <= kMaxCount) continue;
    return Damaged("expected a number of " + std::string(what) + ", got " +
                   std::to_string(static_cast<int64_t>(count)));
  }
  // A total of finite weights may be infinite.
  const double weight = header.total_weight;
  const bool is_total = weight >= 0 && !std::signbit(weight);
  if (is_total && (header.num_gradients > 0 || weight == 0)) return Status();
  return Damaged("expected a weight of gradients that is not negative, got " +
                 std::to_string(weight));
}

// Checks the description of the accumulator, and reads the shape of the values.
Status ReadDescription(const char* bytes, size_t num_bytes, const StateHeader& header,
                       const std::string& expected, Shape* values) {
  const int64_t rank = header.value_rank;
  if (header.description_size > num_bytes - kArraysAt) return Damaged("it is cut off");
  const std::string got(bytes + kArraysAt, header.description_size);
  const bool is_text =
      got.size() <= kMaxDescription &&
      std::all_of(got.begin(), got.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!is_text) return Damaged("it does not say what accumulator it is of");
  if (got != expected) {
    return BadState("The saved state is that of another accumulator: expected " + expected +
                    ", got " + got);
  }
  if (rank < -1 || rank > kMaxRank) return Damaged("it has a bad rank");
  const size_t dims_at = RoundUp(kArraysAt + header.description_size);
  if (rank < 0) *values = Shape::UnknownRank();
  for (int64_t i = 0; i < rank; ++i) {
    const size_t at = dims_at + static_cast<size_t>(i) * sizeof(int64_t);
    if (at + sizeof(int64_t) > num_bytes) return Damaged("it is cut off");
    values->AddDim(Load<int64_t>(bytes + at, 0));
  }
  return Status();
}

// Reads the contributors, and checks them against the numbers of gradients.
Status ReadContributors(const char* array, const StateHeader& header, int64_t num_contributors,
                        std::vector<int64_t>* contributors) {
  const bool in_order = num_contributors > 0;
  const auto num_ready = static_cast<uint64_t>(header.num_gradients);
  if (in_order ? header.num_come != num_ready + header.num_early
               : header.num_come > num_ready || header.num_early > 0) {
    return Damaged("its numbers of contributors, gradients and early gradients do not fit");
  }
  contributors->reserve(header.num_come);
  for (uint64_t i = 0; i < header.num_come; ++i) {
    const auto contributor = Load<int64_t>(array, i);
    const int64_t lowest = i == 0 ? 0 : contributors->back() + 1;
    // In order, none is missing before the early ones.
    const bool fits = !in_order || (contributor < num_contributors &&
                                    (contributor > static_cast<int64_t>(i)) == (i >= num_ready));
    if (contributor < lowest || !fits) {
      return Damaged("got contributor " + std::to_string(contributor) + " out of order");
    }
    contributors->push_back(contributor);
  }
  return Status();
}

// Reads what is known about the early gradients, after the contributors.
Status ReadEarly(const char* bytes, const StateLayout& layout, const StateHeader& header,
                 SumKind kind, ElementType type, SavedState* state) {
  const auto array = [&](StateArray which) { return bytes + layout.offsets[which]; };
  const char* indices = array(kEarlyIndices);
  const char* values = array(kEarlyValues);
  uint64_t num_rows_left = header.num_early_rows;
  for (uint64_t i = 0; i < header.num_early; ++i) {
    SavedGradient& gradient = state->early.emplace_back();
    gradient.contributor = state->contributors[state->contributors.size() - header.num_early + i];
    gradient.weight = Load<double>(array(kEarlyWeights), i);
    if (!std::isfinite(gradient.weight) || std::signbit(gradient.weight)) {
      return Damaged("an early gradient has the weight " + std::to_string(gradient.weight));
    }
    gradient.shape = state->sum.shape;
    if (kind == SumKind::kSparse) {
      const auto num_rows = Load<uint64_t>(array(kEarlyRows), i);
      if (num_rows > num_rows_left) return Damaged("its early gradients have too many rows");
      num_rows_left -= num_rows;
      gradient.shape = state->sum.shape.WithFirstDim(static_cast<int64_t>(num_rows));
      gradient.indices = std::exchange(indices, indices + num_rows * sizeof(int64_t));
    }
    gradient.values = std::exchange(values, values + NumBytes(type, gradient.shape));
  }
  return num_rows_left == 0 ? Status() : Damaged("its early gradients have too few rows");
}

// Reads everything but the shape of the values, which `state` has.
Status ReadArrays(const char* bytes, const StateHeader& header, SumKind kind,
                  const SumOptions& options, SavedState* state) {
  SavedSum& sum = state->sum;
  StateLayout layout;
  if (!LayOut(header, kind, options.type, sum.shape, &layout)) {
    return Damaged("got values of shape " + sum.shape.ToString());
  }
  if (layout.num_bytes != header.num_bytes) return Damaged("its parts do not fit its size");
  bool is_zero = true;
  VisitUnused(layout, [&](size_t begin, size_t end) {
    is_zero &= std::all_of(bytes + begin, bytes + end, [](char byte) { return byte == 0; });
  });
  if (!is_zero) return Damaged("bytes that it does not use are not 0");
  state->global_step = header.global_step;
  state->num_dropped = header.num_dropped;
  state->last_dropped_step = header.last_dropped_step;
  sum.num_gradients = header.num_gradients;
  sum.total_weight = header.total_weight;
  sum.indices = bytes + layout.offsets[kIndices];
  sum.weights = bytes + layout.offsets[kWeights];
  sum.values = bytes + layout.offsets[kValues];
  const Status status = ReadContributors(bytes + layout.offsets[kContributors], header,
                                         options.num_contributors, &state->contributors);
  return status.ok() ? ReadEarly(bytes, layout, header, kind, options.type, state) : status;
}

}  // namespace

Status StateMemory::AllocateWithoutSum() {
  Shape values = Shape::UnknownRank();
  if (!state_.early.empty()) {
    const Shape& first = state_.early[0].shape;
    values = kind_ == SumKind::kSparse ? first.WithFirstDim(0) : first;
  }
  SumMemory unused;
  return Allocate(values, &unused);
}

Status StateMemory::Allocate(const Shape& values, SumMemory* sum) {
  const std::string description = Describe(kind_, options_);
  StateHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.description_size = static_cast<uint32_t>(description.size());
  header.global_step = state_.global_step;
  header.num_dropped = state_.num_dropped;
  header.last_dropped_step = state_.last_dropped_step;
  header.num_gradients = state_.sum.num_gradients;
  header.total_weight = state_.sum.total_weight;
  header.value_rank = values.rank();
  header.num_come = state_.contributors.size();
  header.num_early = state_.early.size();
  for (const SavedGradient& gradient : state_.early) {
    if (kind_ == SumKind::kDense) break;
    header.num_early_rows += static_cast<uint64_t>(gradient.shape.dim(0));
  }
  if (!LayOut(header, kind_, options_.type, values, &layout_)) {
    return Status(StatusCode::kResourceExhausted, "The state is too large to be saved");
  }
  header.num_bytes = layout_.num_bytes;
  const Status status = allocate_(layout_.num_bytes, &memory_);
  if (!status.ok()) return status;
  std::memcpy(memory_, &header, sizeof(header));
  VisitUnused(layout_,
              [&](size_t begin, size_t end) { std::memset(memory_ + begin, 0, end - begin); });
  for (int i = 0; i < values.rank(); ++i) Array<int64_t>(kDims)[i] = values.dim(i);
  std::copy(description.begin(), description.end(), Array<char>(kDescription));
  std::copy(state_.contributors.begin(), state_.contributors.end(), Array<int64_t>(kContributors));
  *sum = {Array<int64_t>(kIndices), Array<double>(kWeights), Array<char>(kValues)};
  return status;
}

Status StateMemory::WriteEarly(Workspace& workspace) const {
  auto* indices = Array<int64_t>(kEarlyIndices);
  auto* values = Array<char>(kEarlyValues);
  for (size_t i = 0; i < state_.early.size(); ++i) {
    const SavedGradient& gradient = state_.early[i];
    Array<double>(kEarlyWeights)[i] = gradient.weight;
    const size_t num_bytes = NumBytes(options_.type, gradient.shape);
    Status status = workspace.CopyNow(gradient.values, num_bytes, values);
    values += num_bytes;
    if (status.ok() && kind_ == SumKind::kSparse) {
      const auto num_rows = static_cast<size_t>(gradient.shape.dim(0));
      Array<int64_t>(kEarlyRows)[i] = gradient.shape.dim(0);
      status = workspace.CopyNow(gradient.indices, num_rows * sizeof(int64_t), indices);
      const IndexSpan span{std::exchange(indices, indices + num_rows), num_rows};
      if (status.ok()) {
        status = CheckAcceptedIndices(span, gradient.index_bound, gradient.contributor);
      }
    }
    if (!status.ok()) return status;
  }
  return Status();
}

Status ReadState(const char* bytes, size_t num_bytes, SumKind kind, const SumOptions& options,
                 SavedState* state) {
  StateHeader header = {};
  std::copy_n(bytes, std::min(num_bytes, sizeof(header)), reinterpret_cast<char*>(&header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return BadState("Expected the saved state of an accumulator, got " + std::to_string(num_bytes) +
                    " bytes that are none");
  }
  if (header.version != kVersion) {
    return BadState("The saved state has another version: expected " + std::to_string(kVersion) +
                    ", got " + std::to_string(header.version));
  }
  if (num_bytes < kArraysAt) return Damaged("it is cut off");
  Status status =
      ReadDescription(bytes, num_bytes, header, Describe(kind, options), &state->sum.shape);
  if (!status.ok()) return status;
  if (header.num_bytes != num_bytes) {
    return Damaged("expected " + std::to_string(header.num_bytes) + " bytes, got " +
                   std::to_string(num_bytes));
  }
  status = CheckCounts(header);
  return status.ok() ? ReadArrays(bytes, header, kind, options, state) : status;
}

}  // namespace condacc
