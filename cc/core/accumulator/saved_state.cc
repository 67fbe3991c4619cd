#include "cc/core/accumulator/saved_state.h"

#include <cmath>
#include <cstring>
#include <string>

#include "cc/core/base/element_type.h"

namespace condacc {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

constexpr char kMagic[8] = {'c', 'o', 'n', 'd', 'a', 'c', 'c', '\0'};
constexpr uint32_t kVersion = 2;
constexpr size_t kAlignment = 64;
constexpr int64_t kMaxRank = 254;                // That of TensorFlow's tensors.
constexpr int64_t kMaxCount = int64_t{1} << 53;  // No counter has ever come so far.
constexpr size_t kMaxBytes = size_t{1} << 62;

// The kinds, data types and reductions. Their numbers in states are their places here, counted from
// 1, so none may move or go.
template <typename T>
struct Named {
  T value;
  const char* name;
};
constexpr Named<SumKind> kKinds[] = {{SumKind::kDense, "dense"}, {SumKind::kSparse, "sparse"}};
constexpr Named<ElementType> kTypes[] = {
    {ElementType::kFloat16, "float16"},     {ElementType::kBFloat16, "bfloat16"},
    {ElementType::kFloat32, "float32"},     {ElementType::kFloat64, "float64"},
    {ElementType::kComplex64, "complex64"}, {ElementType::kComplex128, "complex128"},
    {ElementType::kInt32, "int32"},         {ElementType::kInt64, "int64"}};
constexpr Named<Reduction> kReductions[] = {
    {Reduction::kMean, "MEAN"}, {Reduction::kSum, "SUM"}, {Reduction::kGlobalMean, "GLOBAL_MEAN"}};

template <typename T, size_t kSize>
uint32_t NumberIn(const Named<T> (&table)[kSize], T value) {
  uint32_t number = 1;
  for (const Named<T>& each : table) {
    if (each.value == value) break;
    ++number;
  }
  return number;
}

template <typename T, size_t kSize>
std::string NameIn(const Named<T> (&table)[kSize], uint32_t number) {
  return number >= 1 && number <= kSize ? table[number - 1].name
                                        : "number " + std::to_string(number);
}

// The properties of an accumulator. A state can be restored only to one with the same properties.
struct Spec {
  uint32_t kind = 0;
  uint32_t dtype = 0;
  uint32_t reduction = 0;
  int64_t num_contributors = 0;
  Shape shape;

  static Spec Of(SumKind kind, const SumOptions& options) {
    return {NumberIn(kKinds, kind), NumberIn(kTypes, options.type),
            NumberIn(kReductions, options.reduction), options.num_contributors, options.shape};
  }
  bool operator==(const Spec& other) const {
    return kind == other.kind && dtype == other.dtype && reduction == other.reduction &&
           num_contributors == other.num_contributors && shape == other.shape;
  }
  std::string ToString() const {
    return "a " + NameIn(kKinds, kind) + " accumulator of dtype " + NameIn(kTypes, dtype) +
           ", shape " + shape.ToString() + " and reduction_type " + NameIn(kReductions, reduction) +
           (num_contributors == 0
                ? ""
                : ", in the order of " + std::to_string(num_contributors) + " contributors");
  }
};

// Writes the fields of a state one after another, or only counts their bytes.
class StateWriter {
 public:
  // If `memory` is null, bytes are only counted.
  explicit StateWriter(char* memory) : memory_(memory) {}

  size_t num_bytes() const { return num_bytes_; }

  template <typename T>
  void Put(T value) {
    PutBytes(&value, sizeof(value));
  }
  void PutBytes(const void* bytes, size_t size) {
    if (memory_ != nullptr) std::memcpy(memory_ + num_bytes_, bytes, size);
    num_bytes_ += size;
  }
  void PutShape(const Shape& shape) {
    Put<int64_t>(shape.has_rank() ? shape.rank() : -1);
    for (int i = 0; i < shape.rank(); ++i) Put<int64_t>(shape.dim(i));
  }
  // Makes room for `size` bytes from the next multiple of kAlignment on. Returns their offset.
  size_t Place(size_t size) {
    while (num_bytes_ % kAlignment != 0) Put<char>(0);
    const size_t offset = num_bytes_;
    num_bytes_ += size;
    return offset;
  }

 private:
  char* const memory_;
  size_t num_bytes_ = 0;
};

// Reads the fields of a state one after another. After an error, all that follows fails as well.
class StateReader {
 public:
  StateReader(const char* bytes, size_t num_bytes) : bytes_(bytes), num_bytes_(num_bytes) {}

  template <typename T>
  T Get() {
    T value{};
    if (const char* const from = Take(sizeof(value))) std::memcpy(&value, from, sizeof(value));
    return value;
  }
  // Returns the next `size` bytes, or null if there are fewer.
  const char* Take(size_t size) {
    if (has_failed_ || size > num_bytes_ - position_) {
      has_failed_ = true;
      return nullptr;
    }
    const char* const from = bytes_ + position_;
    position_ += size;
    return from;
  }
  // Returns `size` bytes from the next multiple of kAlignment on.
  const char* TakePlaced(size_t size) {
    while (!has_failed_ && position_ % kAlignment != 0) {
      if (Get<char>() != 0) has_failed_ = true;
    }
    return Take(size);
  }
  Shape GetShape() {
    const auto rank = Get<int64_t>();
    if (rank < 0) {
      has_failed_ |= rank != -1;
      return Shape::UnknownRank();
    }
    Shape shape;
    has_failed_ |= rank > kMaxRank;
    for (int64_t i = 0; i < rank && !has_failed_; ++i) {
      const auto dim = Get<int64_t>();
      has_failed_ |= dim < Shape::kUnknownDim;
      if (!has_failed_) shape.AddDim(dim);
    }
    return shape;
  }
  size_t num_left() const { return num_bytes_ - position_; }
  bool has_failed() const { return has_failed_; }

 private:
  const char* const bytes_;
  const size_t num_bytes_;
  size_t position_ = 0;
  bool has_failed_ = false;
};

Status BadState(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}
Status Damaged(const std::string& what) { return BadState("The saved state is damaged: " + what); }

// Writes or counts all fields.
void Put(SumKind kind, const SumOptions& options, const SavedState& state, size_t num_bytes,
         StateWriter* writer, SumPlaces* places) {
  const Spec spec = Spec::Of(kind, options);
  writer->PutBytes(kMagic, sizeof(kMagic));
  writer->Put(kVersion);
  writer->Put(spec.kind);
  writer->Put(spec.dtype);
  writer->Put(spec.reduction);
  writer->Put(spec.num_contributors);
  writer->Put<uint64_t>(num_bytes);
  writer->PutShape(spec.shape);
  writer->Put(state.global_step);
  writer->Put(state.num_dropped);
  writer->Put(state.last_dropped_step);
  writer->Put(state.sum.num_gradients);
  writer->Put(state.sum.total_weight);
  writer->Put<uint64_t>(state.contributors.size());
  for (const int64_t contributor : state.contributors) writer->Put(contributor);
  writer->Put<uint64_t>(state.early.size());
  if (state.sum.num_gradients > 0) {
    const Shape& shape = state.sum.shape;
    writer->PutShape(shape);
    if (kind == SumKind::kSparse) {
      const auto num_rows = static_cast<size_t>(shape.dim(0));
      places->indices = writer->Place(num_rows * sizeof(int64_t));
      places->weights = writer->Place(num_rows * sizeof(double));
    }
    places->values = writer->Place(NumBytes(SumTypeOf(options.type), shape));
  }
  places->early.clear();
  for (const SavedGradient& gradient : state.early) {
    const Shape& shape = gradient.shape;
    writer->Put(gradient.weight);
    writer->PutShape(shape);
    SumPlaces::Early& place = places->early.emplace_back();
    if (kind == SumKind::kSparse) {
      place.indices = writer->Place(static_cast<size_t>(shape.dim(0)) * sizeof(int64_t));
    }
    place.values = writer->Place(NumBytes(options.type, shape));
  }
}

// Sets `*product` to the number of elements of a fully known shape. Returns false if it is too
// large, or if a dimension is unknown.
bool CountElements(const Shape& shape, size_t* product) {
  *product = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) < 0) return false;
    const auto dim = static_cast<size_t>(shape.dim(i));
    if (dim != 0 && *product > kMaxBytes / 16 / dim) return false;
    *product *= dim;
  }
  return shape.has_rank();
}

bool IsWeight(double weight) { return std::isfinite(weight) && !std::signbit(weight); }

Status ReadCounts(StateReader* reader, SavedState* state) {
  state->global_step = reader->Get<int64_t>();
  state->num_dropped = reader->Get<int64_t>();
  state->last_dropped_step = reader->Get<int64_t>();
  SavedSum& sum = state->sum;
  sum.num_gradients = reader->Get<int64_t>();
  sum.total_weight = reader->Get<double>();
  if (reader->has_failed()) return Damaged("it is cut off");
  if (state->num_dropped < 0 || state->num_dropped > kMaxCount) {
    return Damaged("expected a number of dropped gradients, got " +
                   std::to_string(state->num_dropped));
  }
  if (sum.num_gradients < 0 || sum.num_gradients > kMaxCount) {
    return Damaged("expected a number of accumulated gradients, got " +
                   std::to_string(sum.num_gradients));
  }
  // A total of finite weights may be infinite.
  const bool is_total = sum.total_weight >= 0 && !std::signbit(sum.total_weight);
  if (is_total && (sum.num_gradients > 0 || sum.total_weight == 0)) return Status();
  return Damaged("expected a weight of gradients that is not negative, got " +
                 std::to_string(sum.total_weight));
}

Status ReadContributors(StateReader* reader, SavedState* state) {
  const auto size = reader->Get<uint64_t>();
  if (size > reader->num_left() / sizeof(int64_t)) return Damaged("it is cut off");
  std::vector<int64_t>& contributors = state->contributors;
  contributors.reserve(size);
  for (uint64_t i = 0; i < size; ++i) {
    const auto contributor = reader->Get<int64_t>();
    if (contributor < 0 || (i > 0 && contributor <= contributors.back())) {
      return Damaged("got contributor " + std::to_string(contributor) + " out of order");
    }
    contributors.push_back(contributor);
  }
  return Status();
}

// Checks the contributors against the numbers of gradients.
Status CheckContributors(const SavedState& state, int64_t num_contributors, uint64_t num_early) {
  const std::vector<int64_t>& contributors = state.contributors;
  const size_t size = contributors.size();
  const auto num_gradients = static_cast<uint64_t>(state.sum.num_gradients);
  if (num_contributors == 0) {
    if (num_early != 0) return Damaged("expected no early gradients");
    if (size <= num_gradients) return Status();
    return Damaged("got more contributors than gradients: " + std::to_string(size));
  }
  if (num_early > size || size - num_early != num_gradients) {
    return Damaged("its numbers of contributors and of gradients do not fit");
  }
  for (size_t i = 0; i < size; ++i) {
    const bool is_early = i >= num_gradients;
    if (contributors[i] < num_contributors &&
        (contributors[i] > static_cast<int64_t>(i)) == is_early) {
      continue;
    }
    return Damaged("got contributor " + std::to_string(contributors[i]) + " out of order");
  }
  return Status();
}

// Reads the shape of values, their indices and weights as far as they have any, and the values.
Status ReadValues(StateReader* reader, ElementType type, Shape* shape, const char** indices,
                  const char** weights, const char** values) {
  *shape = reader->GetShape();
  if (reader->has_failed()) return Damaged("it is cut off, or has a bad shape");
  size_t num_elements = 0;
  if (!CountElements(*shape, &num_elements) || (indices != nullptr && shape->rank() == 0)) {
    return Damaged("got values of shape " + shape->ToString());
  }
  if (indices != nullptr) {
    const auto num_rows = static_cast<size_t>(shape->dim(0));
    if (num_rows > kMaxBytes / sizeof(int64_t)) {
      return Damaged("got values of shape " + shape->ToString());
    }
    *indices = reader->TakePlaced(num_rows * sizeof(int64_t));
    if (weights != nullptr) *weights = reader->TakePlaced(num_rows * sizeof(double));
  }
  *values = reader->TakePlaced(num_elements * SizeOf(type));
  return reader->has_failed() ? Damaged("it is cut off") : Status();
}

Status ReadSumAndEarly(StateReader* reader, bool is_sparse, ElementType type, uint64_t num_early,
                       SavedState* state) {
  SavedSum& sum = state->sum;
  Status status;
  if (sum.num_gradients > 0) {
    status = ReadValues(reader, SumTypeOf(type), &sum.shape, is_sparse ? &sum.indices : nullptr,
                        &sum.weights, &sum.values);
  }
  for (size_t i = 0; i < num_early && status.ok(); ++i) {
    SavedGradient& gradient = state->early.emplace_back();
    gradient.contributor = state->contributors[state->contributors.size() - num_early + i];
    gradient.weight = reader->Get<double>();
    if (!IsWeight(gradient.weight)) return Damaged("got a bad weight of an early gradient");
    status = ReadValues(reader, type, &gradient.shape, is_sparse ? &gradient.indices : nullptr,
                        nullptr, &gradient.values);
  }
  return status;
}

}  // namespace

size_t SizeOfState(SumKind kind, const SumOptions& options, const SavedState& state,
                   SumPlaces* places) {
  StateWriter counter(nullptr);
  Put(kind, options, state, 0, &counter, places);
  return counter.num_bytes();
}

void WriteState(SumKind kind, const SumOptions& options, const SavedState& state, char* memory) {
  SumPlaces places;
  const size_t num_bytes = SizeOfState(kind, options, state, &places);
  StateWriter writer(memory);
  Put(kind, options, state, num_bytes, &writer, &places);
}

Status ReadState(const char* bytes, size_t num_bytes, SumKind kind, const SumOptions& options,
                 SavedState* state) {
  StateReader reader(bytes, num_bytes);
  const char* const magic = reader.Take(sizeof(kMagic));
  if (magic == nullptr || std::memcmp(magic, kMagic, sizeof(kMagic)) != 0) {
    return BadState("Expected the saved state of an accumulator, got " + std::to_string(num_bytes) +
                    " bytes that are none");
  }
  const auto version = reader.Get<uint32_t>();
  if (version != kVersion) {
    return BadState("The saved state has another version: expected " + std::to_string(kVersion) +
                    ", got " + std::to_string(version));
  }
  Spec got;
  got.kind = reader.Get<uint32_t>();
  got.dtype = reader.Get<uint32_t>();
  got.reduction = reader.Get<uint32_t>();
  got.num_contributors = reader.Get<int64_t>();
  const auto size = reader.Get<uint64_t>();
  got.shape = reader.GetShape();
  if (reader.has_failed()) return Damaged("it is cut off");
  const Spec expected = Spec::Of(kind, options);
  if (!(got == expected)) {
    return BadState("The saved state is that of another accumulator: expected " +
                    expected.ToString() + ", got " + got.ToString());
  }
  if (size != num_bytes) {
    return Damaged("expected " + std::to_string(size) + " bytes, got " + std::to_string(num_bytes));
  }
  Status status = ReadCounts(&reader, state);
  if (status.ok()) status = ReadContributors(&reader, state);
  if (!status.ok()) return status;
  const auto num_early = reader.Get<uint64_t>();
  status = CheckContributors(*state, options.num_contributors, num_early);
  if (status.ok()) {
    status = ReadSumAndEarly(&reader, kind == SumKind::kSparse, options.type, num_early, state);
  }
  if (!status.ok()) return status;
  if (reader.has_failed() || reader.num_left() > 0) return Damaged("its parts do not fit its size");
  return Status();
}

}  // namespace condacc
