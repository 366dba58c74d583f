#include "engine/cuda_communicator.h"

#include "engine/cuda_error.h"
#include "engine/cuda_marks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace tsc_engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(10); // between two looks at what is under way
constexpr auto kGoodbye = std::chrono::seconds(5);    // for others to end as well

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

NcclType type_of(DType dtype) {
  switch (dtype) {
  case DType::i8:
    return NcclType::i8;
  case DType::boolean:
  case DType::u8:
    return NcclType::u8;
  case DType::i32:
    return NcclType::i32;
  case DType::u32:
    return NcclType::u32;
  case DType::i64:
    return NcclType::i64;
  case DType::u64:
    return NcclType::u64;
  case DType::f16:
    return NcclType::f16;
  case DType::bf16:
    return NcclType::bf16;
  case DType::f32:
    return NcclType::f32;
  case DType::f64:
    return NcclType::f64;
  case DType::f8e4m3fn:
    return NcclType::f8e4m3;
  case DType::f8e5m2:
    return NcclType::f8e5m2;
  default:
    throw Error(Status::bad_argument, std::string("NCCL does not reduce ") + name_of(dtype));
  }
}

NcclReduction reduction_of(const CollectiveCall &call) {
  const bool is_bool = call.dtype == DType::boolean;
  switch (call.reduction) {
  case Reduction::sum:
    return is_bool ? NcclReduction::maximum : NcclReduction::sum;
  case Reduction::average:
    return NcclReduction::average;
  case Reduction::maximum:
    return NcclReduction::maximum;
  case Reduction::minimum:
    return NcclReduction::minimum;
  case Reduction::product:
    return is_bool ? NcclReduction::minimum : NcclReduction::product;
  default:
    throw Error(Status::bad_argument, "NCCL has no bitwise reductions");
  }
}

class CudaGroups;

class CudaCommunicator final : public Communicator {
public:
  CudaCommunicator(CudaGroups &groups, const CudaGroup &group)
      : groups_(groups), rank_(group.rank), ranks_(group.ranks), comm_(group.communicator),
        is_owned_(group.communicator == nullptr) {
    if (is_owned_)
      return;
    int rank = 0, ranks = 0;
    check(Nccl::get().rank(comm_, &rank), "ncclCommUserRank");
    check(Nccl::get().count(comm_, &ranks), "ncclCommCount");
    rank_ = rank;
    ranks_ = ranks;
  }
  ~CudaCommunicator() override { cudaFree(byte_); }

  int64_t rank() const override { return rank_; }
  int64_t ranks() const override { return ranks_; }
  void run(const CollectiveCall &call, const void *from, void *to, Stream stream) override;

  void make(const NcclId &id, double timeout_seconds);
  /// What NCCL says of collectives that were queued; "" if nothing is wrong.
  std::string error();
  void abort();
  void destroy();

private:
  void queue(const CollectiveCall &call, const void *from, void *to, Stream stream);
  void exchange(const CollectiveCall &call, const char *from, char *to, Stream stream);
  void check(NcclResult result, const char *what);
  /// Waits until NCCL has queued what it was asked for.
  void settle(const char *what, double timeout_seconds);

  CudaGroups &groups_;
  int64_t rank_, ranks_;
  std::mutex mutex_; // around every call with comm_
  NcclComm comm_;    // null once aborted
  const bool is_owned_;
  void *byte_ = nullptr; // of a barrier
};

/// The collectives of a CUDA graph, in order.
struct RecordedCall {
  CollectiveCall call; // without texts and counts, which are whoever's recorded it
  std::string step, node;
};
using RecordedCalls = std::vector<RecordedCall>;
struct CudaRecordedCollectives final : RecordedCollectives {
  std::shared_ptr<const RecordedCalls> calls;
};

class CudaGroups final : public Groups {
public:
  explicit CudaGroups(const CudaGroupsOptions &options);
  ~CudaGroups() override;

  Communicator *find(const char *name) override {
    const auto found = names_.find(name);
    if (found != names_.end())
      return found->second;
    const auto all = names_.find("");
    return all == names_.end() ? nullptr : all->second;
  }
  void check() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.empty())
      throw Error(Status::device, failure_);
  }

  const char *why_not_recorded() const override {
    return options_.may_record ? nullptr
                               : "whoever made these groups did not say that all ranks do";
  }
  void begin_recording() override;
  std::unique_ptr<RecordedCollectives> end_recording(Stream stream) override;
  void give_up_recording() override { recording_.reset(); }
  void begin_replay(const RecordedCollectives &collectives, Stream stream) override;
  void end_replay(const RecordedCollectives &collectives, Stream stream) override;

  /// Notes that a collective is queued, between begin and end.
  void begin(const CollectiveCall &call, Stream stream);
  void end(const CollectiveCall &call, Stream stream);
  bool is_interrupted() const { return options_.is_interrupted && options_.is_interrupted(); }
  void fail(const std::string &text, bool timed_out);

private:
  /// A collective that was queued, between two events of its stream; or all those of a graph.
  struct Entry {
    uint64_t number = 0; // of the first
    std::string step, node;
    std::shared_ptr<const RecordedCalls> recorded; // null: one collective
    size_t reached = 0;                            // of a graph: how many have begun
    cudaEvent_t start = nullptr, end = nullptr;
    bool is_queued = false; // its end is recorded
    bool has_started = false;
    Clock::time_point started;
  };

  cudaEvent_t take_event();
  void push(Entry entry, Stream stream);
  void finish(Stream stream);
  void look_at(Entry &entry);
  bool forget_done();
  void watch();
  void look();
  std::string late();
  void abort_all();

  const CudaGroupsOptions options_;
  std::deque<CudaCommunicator> communicators_;
  std::map<std::string, CudaCommunicator *> names_;
  std::mutex mutex_; // of all below
  std::condition_variable stop_;
  std::deque<Entry> queued_; // in order; entries stay where they are
  std::vector<cudaEvent_t> free_events_;
  CollectiveProgress progress_;
  uint64_t count_ = 0;
  std::string failure_;
  bool is_ending_ = false;
  std::unique_ptr<Marks> marks_;
  std::unique_ptr<RecordedCalls> recording_; // what was recorded so far; null: nothing is
  std::thread watch_;
};

void CudaCommunicator::check(NcclResult result, const char *what) {
  if (result == NcclResult::success || result == NcclResult::in_progress)
    return;
  const Nccl &nccl = Nccl::get();
  const char *more = comm_ == nullptr ? nullptr : nccl.last_error(comm_);
  std::string text = std::string(what) + ": " + nccl.error_text(result);
  if (more != nullptr && *more != '\0')
    text += std::string(" (") + more + ")";
  throw Error(Status::device, text);
}

void CudaCommunicator::settle(const char *what, double timeout_seconds) {
  const auto start = Clock::now();
  for (int round = 0;; ++round) {
    NcclResult state = NcclResult::success;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (comm_ == nullptr)
        throw Error(Status::device, "communication was ended");
      check(Nccl::get().async_error(comm_, &state), what);
      check(state, what);
    }
    if (state == NcclResult::success)
      return;
    if (groups_.is_interrupted())
      throw Error(Status::device, std::string(what) + ": another rank failed");
    if (seconds_since(start) > timeout_seconds)
      throw Error(Status::device, std::string(what) + ": not done after " +
                                      std::to_string(static_cast<int64_t>(timeout_seconds)) + " s");
    std::this_thread::sleep_for(std::chrono::microseconds(round < 100 ? 10 : 1000));
  }
}

void CudaCommunicator::make(const NcclId &id, double timeout_seconds) {
  NcclConfig config;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    check(Nccl::get().init_rank(&comm_, static_cast<int>(ranks_), id, static_cast<int>(rank_),
                                &config),
          "ncclCommInitRankConfig");
  }
  settle("ncclCommInitRankConfig", timeout_seconds);
}

std::string CudaCommunicator::error() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (comm_ == nullptr)
    return "";
  try {
    NcclResult state = NcclResult::success;
    check(Nccl::get().async_error(comm_, &state), "ncclCommGetAsyncError");
    check(state, "NCCL reports");
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

void CudaCommunicator::abort() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_owned_ && comm_ != nullptr)
    Nccl::get().abort(comm_);
  comm_ = nullptr;
}

void CudaCommunicator::destroy() {
  if (!is_owned_ || comm_ == nullptr)
    return;
  const Nccl &nccl = Nccl::get();
  NcclResult state = nccl.finalize(comm_);
  for (const auto start = Clock::now(); state == NcclResult::in_progress;) {
    if (nccl.async_error(comm_, &state) != NcclResult::success || Clock::now() - start > kGoodbye)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (state == NcclResult::success)
    nccl.destroy(comm_);
  else
    nccl.abort(comm_);
  comm_ = nullptr;
}

void CudaCommunicator::run(const CollectiveCall &call, const void *from, void *to, Stream stream) {
  groups_.check();
  groups_.begin(call, stream);
  try {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (comm_ == nullptr)
        throw Error(Status::device, "communication was ended");
      queue(call, from, to, stream);
    }
    settle("NCCL", 1e9); // the watch ends it
  } catch (const Error &error) {
    if (error.status == Status::device)
      groups_.fail(error.what(), false);
    throw;
  }
  groups_.end(call, stream);
}

void CudaCommunicator::queue(const CollectiveCall &call, const void *from, void *to,
                             Stream stream) {
  const Nccl &nccl = Nccl::get();
  const auto count = static_cast<size_t>(call.count);
  const size_t bytes = count * size_in_bytes(call.dtype);
  switch (call.kind) {
  case CollectiveKind::all_gather:
    return check(nccl.all_gather(from, to, bytes, NcclType::u8, comm_, stream), "ncclAllGather");
  case CollectiveKind::reduce_scatter:
    return check(nccl.reduce_scatter(from, to, count, type_of(call.dtype), reduction_of(call),
                                     comm_, stream),
                 "ncclReduceScatter");
  case CollectiveKind::all_reduce:
    return check(
        nccl.all_reduce(from, to, count, type_of(call.dtype), reduction_of(call), comm_, stream),
        "ncclAllReduce");
  case CollectiveKind::broadcast:
    return check(
        nccl.broadcast(from, to, bytes, NcclType::u8, static_cast<int>(call.root), comm_, stream),
        "ncclBroadcast");
  case CollectiveKind::all_to_all:
    return exchange(call, static_cast<const char *>(from), static_cast<char *>(to), stream);
  case CollectiveKind::barrier:
    if (byte_ == nullptr)
      check_cuda(cudaMalloc(&byte_, 256), "cudaMalloc");
    return check(
        nccl.all_reduce(byte_, byte_, 1, NcclType::u8, NcclReduction::maximum, comm_, stream),
        "ncclAllReduce");
  }
}

void CudaCommunicator::exchange(const CollectiveCall &call, const char *from, char *to,
                                Stream stream) {
  const Nccl &nccl = Nccl::get();
  check(nccl.group_start(), "ncclGroupStart");
  NcclResult result = NcclResult::success;
  const auto note = [&](NcclResult one) {
    if (result == NcclResult::success && one != NcclResult::in_progress)
      result = one;
  };
  for (int peer = 0; peer < static_cast<int>(ranks_); ++peer) {
    const size_t element = size_in_bytes(call.dtype);
    const size_t sent = static_cast<size_t>(call.sends[peer]) * element;
    const size_t received = static_cast<size_t>(call.receives[peer]) * element;
    if (sent > 0)
      note(nccl.send(from, sent, NcclType::u8, peer, comm_, stream));
    if (received > 0)
      note(nccl.receive(to, received, NcclType::u8, peer, comm_, stream));
    from += sent;
    to += received;
  }
  note(nccl.group_end());
  check(result, "ncclSend and ncclRecv");
}

CudaGroups::CudaGroups(const CudaGroupsOptions &options) : options_(options) {
  // Else ranks exchange addresses while they record, and wait for one that does not.
  if (options_.may_record)
    setenv("NCCL_GRAPH_REGISTER", "0", 1);
  check_cuda(cudaSetDevice(options_.device_index), "cudaSetDevice");
  bool owns = false;
  try {
    for (const CudaGroup &group : options_.groups) {
      CudaCommunicator &communicator = communicators_.emplace_back(*this, group);
      for (const std::string &name : group.names)
        names_[name] = &communicator;
      if (group.communicator == nullptr) {
        owns = true;
        communicator.make(group.id, options_.timeout_seconds);
      }
    }
  } catch (...) {
    abort_all();
    throw;
  }
  if (owns)
    watch_ = std::thread([this] { watch(); });
}

CudaGroups::~CudaGroups() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
    stop_.notify_all();
  }
  if (watch_.joinable())
    watch_.join();
  cudaSetDevice(options_.device_index);
  for (CudaCommunicator &communicator : communicators_)
    communicator.destroy();
  for (Entry &entry : queued_) {
    cudaEventDestroy(entry.start);
    cudaEventDestroy(entry.end);
  }
  for (cudaEvent_t event : free_events_)
    cudaEventDestroy(event);
}

cudaEvent_t CudaGroups::take_event() {
  cudaEvent_t event = nullptr;
  if (free_events_.empty())
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  else {
    event = free_events_.back();
    free_events_.pop_back();
  }
  return event;
}

void CudaGroups::begin(const CollectiveCall &call, Stream stream) {
  if (recording_ != nullptr) {
    marks_->set(recording_->size(), static_cast<cudaStream_t>(stream));
    RecordedCall recorded{call, call.step, call.node};
    recorded.call.sends = recorded.call.receives = nullptr;
    recorded.call.step = recorded.call.node = "";
    recording_->push_back(std::move(recorded));
    return;
  }
  if (options_.before)
    options_.before(call);
  Entry entry;
  entry.step = call.step;
  entry.node = call.node;
  push(std::move(entry), stream);
}

void CudaGroups::end(const CollectiveCall &call, Stream stream) {
  if (recording_ != nullptr)
    return;
  finish(stream);
  if (options_.after)
    options_.after(call);
}

void CudaGroups::push(Entry entry, Stream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entry.number = count_ + 1;
  count_ += entry.recorded == nullptr ? 1 : entry.recorded->size();
  entry.start = take_event();
  entry.end = take_event();
  check_cuda(cudaEventRecord(entry.start, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
  queued_.push_back(std::move(entry));
}

void CudaGroups::finish(Stream stream) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry &entry = queued_.back(); // one thread runs collectives
    check_cuda(cudaEventRecord(entry.end, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
    entry.is_queued = true;
  }
  if (!watch_.joinable())
    look(); // nobody else clears what is done
}

void CudaGroups::begin_recording() {
  const std::lock_guard<std::mutex> lock(mutex_); // of marks_, which the watch reads
  if (marks_ == nullptr)
    marks_ = std::make_unique<Marks>();
  recording_ = std::make_unique<RecordedCalls>();
}

std::unique_ptr<RecordedCollectives> CudaGroups::end_recording(Stream stream) {
  auto result = std::make_unique<CudaRecordedCollectives>();
  if (!recording_->empty())
    marks_->join(static_cast<cudaStream_t>(stream));
  result->calls = std::move(recording_);
  recording_.reset();
  return result;
}

void CudaGroups::begin_replay(const RecordedCollectives &collectives, Stream stream) {
  const auto &recorded = static_cast<const CudaRecordedCollectives &>(collectives);
  check();
  if (options_.before)
    for (const RecordedCall &one : *recorded.calls)
      options_.before(one.call);
  if (recorded.calls->empty())
    return;
  // In order on the stream: whoever sees the start that follows sees these marks alone.
  marks_->clear(recorded.calls->size(), static_cast<cudaStream_t>(stream));
  Entry entry;
  entry.recorded = recorded.calls;
  push(std::move(entry), stream);
}

void CudaGroups::end_replay(const RecordedCollectives &collectives, Stream stream) {
  const auto &recorded = static_cast<const CudaRecordedCollectives &>(collectives);
  if (!recorded.calls->empty())
    finish(stream);
  if (options_.after)
    for (const RecordedCall &one : *recorded.calls)
      options_.after(one.call);
}

void CudaGroups::fail(const std::string &text, bool timed_out) {
  CudaGroupsFailure failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.empty())
      return;
    failure_ = text;
    failure = {timed_out, text, progress_};
  }
  if (options_.on_failure)
    options_.on_failure(failure);
}

void CudaGroups::watch() {
  cudaSetDevice(options_.device_index);
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (stop_.wait_for(lock, kLook, [&] { return is_ending_; }))
        return;
    }
    look();
    if (is_interrupted())
      fail("another rank failed", false);
    for (CudaCommunicator &communicator : communicators_)
      if (const std::string error = communicator.error(); !error.empty())
        fail(error, false);
    if (const std::string text = late(); !text.empty())
      fail(text, true);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (failure_.empty())
        continue;
    }
    abort_all();
    return;
  }
}

/// What of an entry has begun since the last look.
void CudaGroups::look_at(Entry &entry) {
  if (!entry.has_started && cudaEventQuery(entry.start) == cudaSuccess) {
    entry.has_started = true;
    entry.started = Clock::now();
    if (entry.recorded == nullptr && entry.number > progress_.begun)
      progress_ = {entry.number, progress_.done, entry.step, entry.node};
  }
  if (!entry.has_started || entry.recorded == nullptr)
    return;
  const size_t before = entry.reached;
  while (entry.reached < entry.recorded->size() && marks_->is_set(entry.reached))
    ++entry.reached;
  if (entry.reached == before)
    return;
  entry.started = Clock::now(); // of the collective that is under way
  const RecordedCall &call = (*entry.recorded)[entry.reached - 1];
  const uint64_t begun = entry.number + entry.reached - 1;
  if (begun > progress_.begun)
    progress_ = {begun, std::max(progress_.done, begun - 1), call.step, call.node};
}

/// Whether an entry was done, and the first of them is forgotten.
bool CudaGroups::forget_done() {
  if (queued_.empty())
    return false;
  const Entry &entry = queued_.front();
  if (!entry.has_started || !entry.is_queued || cudaEventQuery(entry.end) != cudaSuccess)
    return false;
  progress_.done = entry.number + (entry.recorded == nullptr ? 0 : entry.recorded->size() - 1);
  if (entry.recorded != nullptr && progress_.done > progress_.begun)
    progress_ = {progress_.done, progress_.done, entry.recorded->back().step,
                 entry.recorded->back().node};
  free_events_.push_back(entry.start);
  free_events_.push_back(entry.end);
  queued_.pop_front();
  return true;
}

/// What has begun and what is done since the last look.
void CudaGroups::look() {
  CollectiveProgress progress;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const CollectiveProgress before = progress_;
    do {
      for (Entry &entry : queued_) {
        look_at(entry);
        if (!entry.has_started || entry.recorded != nullptr)
          break; // marks are those of the first graph that has not ended
      }
    } while (forget_done());
    cudaGetLastError(); // cudaErrorNotReady is none
    if (before.begun == progress_.begun && before.done == progress_.done)
      return;
    progress = progress_;
  }
  if (options_.on_progress)
    options_.on_progress(progress);
}

/// What is wrong if the collective that is under way takes too long.
std::string CudaGroups::late() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (queued_.empty() || !queued_.front().has_started ||
      seconds_since(queued_.front().started) <= options_.timeout_seconds)
    return "";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", options_.timeout_seconds);
  return std::string("it has not ended within ") + seconds + " s" +
         (queued_.front().recorded == nullptr ? "" : ", in a CUDA graph");
}

/// Side by side: what one of them waits for may be behind another on a stream.
void CudaGroups::abort_all() {
  std::vector<std::thread> threads;
  for (CudaCommunicator &communicator : communicators_)
    threads.emplace_back([this, &communicator] {
      cudaSetDevice(options_.device_index);
      communicator.abort();
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace

std::unique_ptr<Groups> make_cuda_groups(const CudaGroupsOptions &options) {
  return std::make_unique<CudaGroups>(options);
}

NcclId make_nccl_id() {
  const Nccl &nccl = Nccl::get();
  NcclId id;
  if (const NcclResult result = nccl.get_id(&id); result != NcclResult::success)
    throw Error(Status::device, std::string("ncclGetUniqueId: ") + nccl.error_text(result));
  return id;
}

} // namespace tsc_engine
