// A device of TensorFlow of type GPU, whose memory is the host's and whose streams are LateStreams.
// TensorFlow loads it as a pluggable device and puts its own allocator on top.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tests/gpu/emulated/plugin/late_stream.h"

using condacc::emulated::Event;
using condacc::emulated::LateStream;

// TensorFlow's names of what a device defines.
struct SP_Stream_st {
  explicit SP_Stream_st(unsigned seed) : late(seed) {}
  LateStream late;
};
struct SP_Event_st {
  Event event;
};

namespace {

std::atomic<unsigned> num_streams{0};
std::atomic<int64_t> num_pushed{0};
std::atomic<int64_t> num_waits{0};
// While it is locked by condacc_emulated_hold(), the stream for computations stands still.
std::mutex held;
// The first stream that TensorFlow makes is the one for computations.
std::atomic<SP_Stream> compute_stream{nullptr};

// The stream of the emulated CUDA runtime: TensorFlow's, or a wrong one to see that it is noticed.
LateStream& CudaStream() {
  static const bool is_wrong = std::getenv("EMULATED_WRONG_STREAM") != nullptr;
  static LateStream* const wrong = is_wrong ? new LateStream(99) : nullptr;
  return is_wrong ? *wrong : compute_stream.load()->late;
}

void* AllocatePages(uint64_t num_bytes) {
  void* data = nullptr;
  return posix_memalign(&data, 4096, num_bytes + 1) == 0 ? data : nullptr;
}

void Allocate(const SP_Device*, uint64_t num_bytes, int64_t, SP_DeviceMemoryBase* memory) {
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = AllocatePages(num_bytes);
  memory->size = num_bytes;
}
void Deallocate(const SP_Device*, SP_DeviceMemoryBase* memory) {
  std::free(memory->opaque);
  memory->opaque = nullptr;
  memory->size = 0;
}
void* AllocateHost(const SP_Device*, uint64_t num_bytes) { return AllocatePages(num_bytes); }
void DeallocateHost(const SP_Device*, void* data) { std::free(data); }
void* AllocateUnified(const SP_Device*, uint64_t) { return nullptr; }
void DeallocateUnified(const SP_Device*, void*) {}
TF_Bool AllocatorStats(const SP_Device*, SP_AllocatorStats* stats) {
  stats->struct_size = SP_ALLOCATORSTATS_STRUCT_SIZE;
  return 0;
}
TF_Bool MemoryUsage(const SP_Device*, int64_t* free_bytes, int64_t* total_bytes) {
  *free_bytes = *total_bytes = int64_t{3} << 30;
  return 1;
}

void CreateStream(const SP_Device*, SP_Stream* stream, TF_Status*) {
  *stream = new SP_Stream_st(++num_streams);
  SP_Stream none = nullptr;
  compute_stream.compare_exchange_strong(none, *stream);
}
void DestroyStream(const SP_Device*, SP_Stream) {}
void StreamStatus(const SP_Device*, SP_Stream, TF_Status*) {}
void MakeDependent(const SP_Device*, SP_Stream dependent, SP_Stream other, TF_Status*) {
  auto* const event = new Event;  // It is never freed: the dependent stream still waits for it.
  other->late.Record(event);
  dependent->late.WaitFor(event);
}

void CreateEvent(const SP_Device*, SP_Event* event, TF_Status*) { *event = new SP_Event_st; }
void DestroyEvent(const SP_Device*, SP_Event) {}
SE_EventStatus EventStatus(const SP_Device*, SP_Event event) {
  return event->event.IsComplete() ? SE_EVENT_COMPLETE : SE_EVENT_PENDING;
}
void RecordEvent(const SP_Device*, SP_Stream stream, SP_Event event, TF_Status*) {
  stream->late.Record(&event->event);
}
void WaitForEvent(const SP_Device*, SP_Stream stream, SP_Event event, TF_Status*) {
  stream->late.WaitFor(&event->event);
}
void BlockForEvent(const SP_Device*, SP_Event event, TF_Status*) {
  event->event.WaitFor(event->event.num_recorded());
}
void BlockForStream(const SP_Device*, SP_Stream stream, TF_Status*) { stream->late.Wait(); }
void BlockForAll(const SP_Device*, TF_Status*) { compute_stream.load()->late.Wait(); }

void CreateTimer(const SP_Device*, SP_Timer* timer, TF_Status*) { *timer = nullptr; }
void DestroyTimer(const SP_Device*, SP_Timer) {}
void UseTimer(const SP_Device*, SP_Stream, SP_Timer, TF_Status*) {}

void Copy(SP_Stream stream, void* to, const void* from, uint64_t num_bytes) {
  stream->late.Push([=] { std::memcpy(to, from, num_bytes); });
}
void CopyToHost(const SP_Device*, SP_Stream stream, void* to, const SP_DeviceMemoryBase* from,
                uint64_t num_bytes, TF_Status*) {
  Copy(stream, to, from->opaque, num_bytes);
}
void CopyFromHost(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* to, const void* from,
                  uint64_t num_bytes, TF_Status*) {
  Copy(stream, to->opaque, from, num_bytes);
}
void CopyOnDevice(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* to,
                  const SP_DeviceMemoryBase* from, uint64_t num_bytes, TF_Status*) {
  Copy(stream, to->opaque, from->opaque, num_bytes);
}

void CopyNow(void* to, const void* from, uint64_t num_bytes) {
  compute_stream.load()->late.Wait();
  std::memcpy(to, from, num_bytes);
}
void CopyToHostNow(const SP_Device*, void* to, const SP_DeviceMemoryBase* from, uint64_t num_bytes,
                   TF_Status*) {
  CopyNow(to, from->opaque, num_bytes);
}
void CopyFromHostNow(const SP_Device*, SP_DeviceMemoryBase* to, const void* from,
                     uint64_t num_bytes, TF_Status*) {
  CopyNow(to->opaque, from, num_bytes);
}
void CopyOnDeviceNow(const SP_Device*, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from,
                     uint64_t num_bytes, TF_Status*) {
  CopyNow(to->opaque, from->opaque, num_bytes);
}

void Fill(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* to, uint8_t value,
          uint64_t num_bytes, TF_Status*) {
  void* const data = to->opaque;
  stream->late.Push([=] { std::memset(data, value, num_bytes); });
}
void FillZeros(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to,
               uint64_t num_bytes, TF_Status* status) {
  Fill(device, stream, to, 0, num_bytes, status);
}
void FillWords(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* to, uint32_t value,
               uint64_t num_bytes, TF_Status*) {
  auto* const words = static_cast<uint32_t*>(to->opaque);
  stream->late.Push([=] {
    for (uint64_t i = 0; i < num_bytes / sizeof(value); ++i) words[i] = value;
  });
}
TF_Bool CallHost(const SP_Device*, SP_Stream stream, SE_StatusCallbackFn call, void* argument) {
  stream->late.Push([=] {
    TF_Status* const status = TF_NewStatus();
    call(argument, status);
    TF_DeleteStatus(status);
  });
  return 1;
}

void SetMemoryFunctions(SP_StreamExecutor* executor) {
  executor->allocate = Allocate;
  executor->deallocate = Deallocate;
  executor->host_memory_allocate = AllocateHost;
  executor->host_memory_deallocate = DeallocateHost;
  executor->unified_memory_allocate = AllocateUnified;
  executor->unified_memory_deallocate = DeallocateUnified;
  executor->get_allocator_stats = AllocatorStats;
  executor->device_memory_usage = MemoryUsage;
  executor->memcpy_dtoh = CopyToHost;
  executor->memcpy_htod = CopyFromHost;
  executor->memcpy_dtod = CopyOnDevice;
  executor->sync_memcpy_dtoh = CopyToHostNow;
  executor->sync_memcpy_htod = CopyFromHostNow;
  executor->sync_memcpy_dtod = CopyOnDeviceNow;
  executor->mem_zero = FillZeros;
  executor->memset = Fill;
  executor->memset32 = FillWords;
}

void SetStreamFunctions(SP_StreamExecutor* executor) {
  executor->create_stream = CreateStream;
  executor->destroy_stream = DestroyStream;
  executor->create_stream_dependency = MakeDependent;
  executor->get_stream_status = StreamStatus;
  executor->create_event = CreateEvent;
  executor->destroy_event = DestroyEvent;
  executor->get_event_status = EventStatus;
  executor->record_event = RecordEvent;
  executor->wait_for_event = WaitForEvent;
  executor->create_timer = CreateTimer;
  executor->destroy_timer = DestroyTimer;
  executor->start_timer = UseTimer;
  executor->stop_timer = UseTimer;
  executor->block_host_for_event = BlockForEvent;
  executor->block_host_until_done = BlockForStream;
  executor->synchronize_all_activity = BlockForAll;
  executor->host_callback = CallHost;
}

void CreateDevice(const SP_Platform*, SE_CreateDeviceParams* params, TF_Status*) {
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->device_handle = &num_streams;  // TensorFlow only asks that there is one.
  params->device->ordinal = params->ordinal;
  params->device->hardware_name = "emulated";
  params->device->device_vendor = "emulated";
  params->device->pci_bus_id = "0000:00:00.0";
}

void SetPlatformFunctions(SP_PlatformFns* functions) {
  functions->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  functions->get_device_count = [](const SP_Platform*, int* count, TF_Status*) { *count = 1; };
  functions->create_device = CreateDevice;
  functions->destroy_device = [](const SP_Platform*, SP_Device*) {};
  functions->create_device_fns = [](const SP_Platform*, SE_CreateDeviceFnsParams* params,
                                    TF_Status*) {
    params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
    params->device_fns->get_numa_node = [](const SP_Device*) -> int32_t { return 0; };
    params->device_fns->get_memory_bandwidth = [](const SP_Device*) -> int64_t { return 1000; };
    params->device_fns->get_gflops = [](const SP_Device*) -> double { return 1000; };
  };
  functions->destroy_device_fns = [](const SP_Platform*, SP_DeviceFns*) {};
  functions->create_stream_executor = [](const SP_Platform*, SE_CreateStreamExecutorParams* params,
                                         TF_Status*) {
    params->stream_executor->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
    SetMemoryFunctions(params->stream_executor);
    SetStreamFunctions(params->stream_executor);
  };
  functions->destroy_stream_executor = [](const SP_Platform*, SP_StreamExecutor*) {};
  functions->create_timer_fns = [](const SP_Platform*, SP_TimerFns* timer, TF_Status*) {
    timer->struct_size = SP_TIMER_FNS_STRUCT_SIZE;
    timer->nanoseconds = [](SP_Timer) -> uint64_t { return 0; };
  };
  functions->destroy_timer_fns = [](const SP_Platform*, SP_TimerFns*) {};
}

}  // namespace

extern "C" {

// Registers the device. TensorFlow calls this when it loads the library.
void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status*) {
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "EMULATED";
  params->platform->type = "GPU";
  params->platform->supports_unified_memory = 0;
  params->platform->use_bfc_allocator = 1;
  params->destroy_platform = [](SP_Platform*) {};
  params->destroy_platform_fns = [](SP_PlatformFns*) {};
  SetPlatformFunctions(params->platform_fns);
}

// These functions give the emulated CUDA runtime access to the stream: see
// condacc_emulated_use_stream().
void condacc_emulated_push(void (*run)(void*), void* argument) {
  ++num_pushed;
  CudaStream().Push([=] { run(argument); });
}
void condacc_emulated_wait() {
  ++num_waits;
  CudaStream().Wait();
}
int64_t condacc_emulated_num_pushed() { return num_pushed; }
int64_t condacc_emulated_num_waits() { return num_waits; }

// Stops the stream for computations until the same thread calls condacc_emulated_release().
void condacc_emulated_hold() {
  held.lock();
  compute_stream.load()->late.Push([] { const std::lock_guard<std::mutex> wait(held); });
}
void condacc_emulated_release() { held.unlock(); }

}  // extern "C"
