#include "server/job/store.h"

#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/fault_point.h"
#include "common/base/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/job/schema.h"
#include "server/job/states.h"

namespace tally {
namespace {

constexpr char kIdPrefix[] = "job-";

// Maps in key order, so that the bytes on disk depend on the contents alone.
std::string Serialize(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

bool Parse(absl::string_view bytes, google::protobuf::Message& message) {
  return bytes.size() <= std::numeric_limits<int>::max() &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

std::string SummaryOf(const v1::JobStatus& status) {
  v1::JobStatus summary = status;
  summary.clear_spec();
  return Serialize(summary);
}

absl::Status Damaged(const std::string& job_id, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("tally.db: ", job_id, ": its ", what, " is damaged"));
}

absl::Status TokenTaken(const std::string& token, const std::string& job_id,
                        const v1::JobSpec& before, const v1::JobSpec& now) {
  std::string differences;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&differences);
  if (differencer.Compare(before, now)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("token ", token, ": expected the spec of ", job_id,
                   ", which was submitted with it, found another: ",
                   differences.substr(0, differences.find('\n'))));
}

v1::JobEvent DroppedLines(uint64_t first_kept, double time) {
  v1::JobEvent event;
  event.set_sequence(first_kept - 1);
  event.set_time(time);
  event.set_level("warning");
  event.set_message(absl::StrCat("lines 1 to ", first_kept - 1, " are not kept: the log holds the ",
                                 JobStore::kEventsPerJob, " newest"));
  return event;
}

v1::JobEvent EventOfRow(const SqliteStatement& row) {
  v1::JobEvent event;
  event.set_sequence(row.Uint64(0));
  event.set_time(row.Double(1));
  event.set_level(std::string(row.Bytes(2)));
  event.set_worker(std::string(row.Bytes(3)));
  event.set_message(std::string(row.Bytes(4)));
  return event;
}

absl::StatusOr<StoredJob> JobOfRow(const SqliteStatement& row) {
  const std::string job_id = JobIdOf(row.Uint64(0));
  StoredJob job;
  if (!Parse(row.Bytes(6), job.status)) return Damaged(job_id, "summary");
  if (!Parse(row.Bytes(1), *job.status.mutable_spec())) return Damaged(job_id, "spec");
  const absl::StatusOr<v1::JobState> state = ParseJobState(row.Bytes(2));
  if (!state.ok()) return Damaged(job_id, "state");
  job.status.set_job_id(job_id);
  job.status.set_state(*state);
  job.status.set_reason(std::string(row.Bytes(3)));
  job.status.set_submitted_at(row.Double(4));
  job.status.set_started_at(row.Double(5));
  job.status.set_finished_at(row.Double(7));
  job.status.set_held(row.Uint64(8) != 0);
  job.held_reason = std::string(row.Bytes(9));
  return job;
}

}  // namespace

std::string JobIdOf(uint64_t number) { return absl::StrCat(kIdPrefix, number); }

absl::StatusOr<uint64_t> JobNumberOf(absl::string_view job_id) {
  uint64_t number = 0;
  absl::string_view digits = job_id;
  // Only the canonical form: "job-07" and "job-+7" would parse too.
  if (absl::ConsumePrefix(&digits, kIdPrefix) && absl::SimpleAtoi(digits, &number) &&
      JobIdOf(number) == job_id && number <= std::numeric_limits<int64_t>::max()) {
    return number;
  }
  return absl::NotFoundError(absl::StrCat("expected a job's id, found \"", job_id.substr(0, 64),
                                          "\""));
}

struct JobStore::Statements {
  SqliteStatement insert;
  SqliteStatement find_token;
  SqliteStatement load;
  SqliteStatement save_state;
  SqliteStatement save_hold;
  SqliteStatement load_drained;
  SqliteStatement add_drained;
  SqliteStatement remove_drained;
  SqliteStatement save_progress;
  SqliteStatement add_worker;
  SqliteStatement remove_workers;
  SqliteStatement load_workers;
  SqliteStatement add_event;
  SqliteStatement drop_events;
  SqliteStatement first_event;
  SqliteStatement events;
};

JobStore::JobStore(FileLock lock, Sqlite synced, Sqlite relaxed)
    : lock_(std::move(lock)),
      synced_(std::move(synced)),
      relaxed_(std::move(relaxed)),
      statements_(std::make_unique<Statements>()) {}

JobStore::~JobStore() = default;

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(const std::string& state_dir) {
  TALLY_RETURN_IF_ERROR(MakeFolders(state_dir));
  absl::StatusOr<FileLock> lock = FileLock::Acquire(absl::StrCat(state_dir, "/server.lock"));
  if (absl::IsFailedPrecondition(lock.status())) {
    return WithContext(lock.status(), "state_dir in use by another server");
  }
  TALLY_RETURN_IF_ERROR(WithContext(lock.status(), "state_dir"));
  const std::string path = absl::StrCat(state_dir, "/tally.db");
  TALLY_RETURN_IF_ERROR(PrepareSchema(path));
  TALLY_ASSIGN_OR_RETURN(Sqlite synced, Connect(path, SqliteSync::kFull));
  TALLY_ASSIGN_OR_RETURN(Sqlite relaxed, Connect(path, SqliteSync::kNormal));
  std::unique_ptr<JobStore> store(
      new JobStore(*std::move(lock), std::move(synced), std::move(relaxed)));
  TALLY_RETURN_IF_ERROR(store->Prepare());
  return store;
}

absl::Status JobStore::Prepare() {
  struct Line {
    Sqlite* database;
    SqliteStatement* statement;
    const char* sql;
  };
  absl::MutexLock lock(&mutex_);
  Statements& to = *statements_;
  const Line lines[] = {
      {&synced_, &to.insert,
       "INSERT INTO jobs (token, spec, state, reason, submitted, started, finished, summary) "
       "VALUES (?, ?, 'PENDING', '', ?, 0, 0, x'')"},
      {&synced_, &to.find_token, "SELECT number, spec FROM jobs WHERE token = ?"},
      {&synced_, &to.load,
       "SELECT number, spec, state, reason, submitted, started, summary, finished, held, "
       "held_reason FROM jobs ORDER BY number"},
      {&synced_, &to.save_state,
       "UPDATE jobs SET state = ?, reason = ?, started = ?, finished = ?, summary = ?, held = ? "
       "WHERE number = ?"},
      {&synced_, &to.save_hold, "UPDATE jobs SET held = ?, held_reason = ? WHERE number = ?"},
      {&synced_, &to.load_drained, "SELECT name, reason FROM drained"},
      {&synced_, &to.add_drained, "INSERT OR REPLACE INTO drained (name, reason) VALUES (?, ?)"},
      {&synced_, &to.remove_drained, "DELETE FROM drained WHERE name = ?"},
      {&relaxed_, &to.save_progress,
       "UPDATE jobs SET summary = ? WHERE number = ? AND finished = 0"},
      {&synced_, &to.add_worker, "INSERT INTO places (job, position, name) VALUES (?, ?, ?)"},
      {&synced_, &to.remove_workers, "DELETE FROM places WHERE job = ?"},
      {&synced_, &to.load_workers, "SELECT job, name FROM places ORDER BY job, position"},
      {&relaxed_, &to.add_event,
       "INSERT INTO events (job, sequence, time, level, worker, message) SELECT ?1, "
       "COALESCE(MAX(sequence), 0) + 1, ?2, ?3, ?4, ?5 FROM events WHERE job = ?1 "
       "RETURNING sequence"},
      {&relaxed_, &to.drop_events, "DELETE FROM events WHERE job = ? AND sequence <= ?"},
      {&relaxed_, &to.first_event,
       "SELECT sequence, time FROM events WHERE job = ? ORDER BY sequence LIMIT 1"},
      {&relaxed_, &to.events,
       "SELECT sequence, time, level, worker, message FROM events "
       "WHERE job = ? AND sequence > ? ORDER BY sequence LIMIT ?"},
  };
  for (const Line& line : lines) {
    TALLY_ASSIGN_OR_RETURN(*line.statement, line.database->Prepare(line.sql));
  }
  return absl::OkStatus();
}

absl::StatusOr<JobStore::Inserted> JobStore::FindToken(const std::string& token,
                                                       const v1::JobSpec& spec) {
  SqliteStatement& find = statements_->find_token;
  const SqliteScope scope(find);
  find.BindText(1, token);
  TALLY_ASSIGN_OR_RETURN(const bool found, find.Step());
  if (!found) return absl::NotFoundError(token);
  const std::string job_id = JobIdOf(find.Uint64(0));
  v1::JobSpec before;
  if (!Parse(find.Bytes(1), before)) return Damaged(job_id, "spec");
  TALLY_RETURN_IF_ERROR(TokenTaken(token, job_id, before, spec));
  return Inserted{job_id, /*created=*/false};
}

absl::StatusOr<JobStore::Inserted> JobStore::Insert(const v1::JobSpec& spec,
                                                    const std::string& token,
                                                    double submitted_at) {
  absl::MutexLock lock(&mutex_);
  absl::StatusOr<Inserted> known = FindToken(token, spec);
  if (!absl::IsNotFound(known.status())) return known;
  TALLY_RETURN_IF_ERROR(statements_->insert.BindText(1, token)
                            .BindBlob(2, Serialize(spec))
                            .Bind(3, submitted_at)
                            .Run());
  return Inserted{JobIdOf(synced_.LastInsertId()), /*created=*/true};
}

absl::StatusOr<std::vector<StoredJob>> JobStore::Load() {
  absl::MutexLock lock(&mutex_);
  std::vector<StoredJob> jobs;
  SqliteStatement& load = statements_->load;
  const SqliteScope scope(load);
  for (;;) {
    TALLY_ASSIGN_OR_RETURN(const bool found, load.Step());
    if (!found) break;
    TALLY_ASSIGN_OR_RETURN(jobs.emplace_back(), JobOfRow(load));
  }
  TALLY_RETURN_IF_ERROR(LoadWorkers(jobs));
  return jobs;
}

absl::Status JobStore::LoadWorkers(std::vector<StoredJob>& jobs) {
  SqliteStatement& load = statements_->load_workers;
  const SqliteScope scope(load);
  auto job = jobs.begin();  // both are by number
  for (;;) {
    TALLY_ASSIGN_OR_RETURN(const bool found, load.Step());
    if (!found) return absl::OkStatus();
    const std::string job_id = JobIdOf(load.Uint64(0));
    while (job != jobs.end() && job->status.job_id() != job_id) ++job;
    if (job == jobs.end()) return Damaged(job_id, "list of workers");
    job->workers.emplace_back(load.Bytes(1));
  }
}

absl::Status JobStore::WriteState(const v1::JobStatus& status) {
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, JobNumberOf(status.job_id()));
  TALLY_RETURN_IF_ERROR(statements_->save_state.BindText(1, JobStateName(status.state()))
                            .BindText(2, status.reason())
                            .Bind(3, status.started_at())
                            .Bind(4, status.finished_at())
                            .BindBlob(5, SummaryOf(status))
                            .Bind(6, uint64_t{status.held()})
                            .Bind(7, number)
                            .Run());
  return CheckChanged(status.job_id());
}

absl::Status JobStore::CheckChanged(const std::string& job_id) {
  if (synced_.Changes() == 1) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(job_id, ": no such job"));
}

absl::Status JobStore::WriteWorkers(uint64_t number, const std::vector<std::string>& workers) {
  TALLY_RETURN_IF_ERROR(statements_->remove_workers.Bind(1, number).Run());
  for (size_t index = 0; index < workers.size(); ++index) {
    TALLY_RETURN_IF_ERROR(statements_->add_worker.Bind(1, number)
                              .Bind(2, uint64_t{index})
                              .BindText(3, workers[index])
                              .Run());
  }
  return absl::OkStatus();
}

absl::Status JobStore::SaveState(const v1::JobStatus& status) {
  absl::MutexLock lock(&mutex_);
  FaultPoint("store.before_commit");
  TALLY_RETURN_IF_ERROR(WriteState(status));
  FaultPoint("store.after_commit");
  return absl::OkStatus();
}

absl::Status JobStore::SaveAssignment(const v1::JobStatus& status,
                                      const std::vector<std::string>& workers) {
  absl::MutexLock lock(&mutex_);
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, JobNumberOf(status.job_id()));
  TALLY_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(synced_));
  TALLY_RETURN_IF_ERROR(WriteState(status));
  TALLY_RETURN_IF_ERROR(WriteWorkers(number, workers));
  FaultPoint("store.before_commit");
  TALLY_RETURN_IF_ERROR(transaction.Commit());
  FaultPoint("store.after_commit");
  return absl::OkStatus();
}

absl::Status JobStore::SaveHold(const std::string& job_id, bool held, const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, JobNumberOf(job_id));
  TALLY_RETURN_IF_ERROR(statements_->save_hold.Bind(1, uint64_t{held})
                            .BindText(2, reason)
                            .Bind(3, number)
                            .Run());
  return CheckChanged(job_id);
}

absl::StatusOr<std::map<std::string, std::string>> JobStore::LoadDrained() {
  absl::MutexLock lock(&mutex_);
  SqliteStatement& load = statements_->load_drained;
  const SqliteScope scope(load);
  std::map<std::string, std::string> drained;
  for (;;) {
    TALLY_ASSIGN_OR_RETURN(const bool found, load.Step());
    if (!found) return drained;
    drained.emplace(load.Bytes(0), load.Bytes(1));
  }
}

absl::Status JobStore::AddDrained(const std::string& worker, const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  return statements_->add_drained.BindText(1, worker).BindText(2, reason).Run();
}

absl::Status JobStore::RemoveDrained(const std::string& worker) {
  absl::MutexLock lock(&mutex_);
  return statements_->remove_drained.BindText(1, worker).Run();
}

absl::Status JobStore::SaveProgress(const v1::JobStatus& status) {
  absl::MutexLock lock(&mutex_);
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, JobNumberOf(status.job_id()));
  return statements_->save_progress.BindBlob(1, SummaryOf(status)).Bind(2, number).Run();
}

absl::StatusOr<uint64_t> JobStore::AddEvent(const std::string& job_id, const v1::JobEvent& event) {
  absl::MutexLock lock(&mutex_);
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, JobNumberOf(job_id));
  SqliteStatement& add = statements_->add_event;
  uint64_t sequence = 0;
  {
    const SqliteScope scope(add);
    add.Bind(1, number).Bind(2, event.time()).BindText(3, event.level());
    add.BindText(4, event.worker()).BindText(5, event.message());
    TALLY_RETURN_IF_ERROR(add.Step().status());
    sequence = add.Uint64(0);
    TALLY_RETURN_IF_ERROR(add.Step().status());  // to the end, where it is committed
  }
  if (sequence > kEventsPerJob) {
    TALLY_RETURN_IF_ERROR(
        statements_->drop_events.Bind(1, number).Bind(2, sequence - kEventsPerJob).Run());
  }
  return sequence;
}

absl::StatusOr<std::vector<v1::JobEvent>> JobStore::Events(const std::string& job_id,
                                                           uint64_t after, uint32_t limit) {
  absl::MutexLock lock(&mutex_);
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, JobNumberOf(job_id));
  std::vector<v1::JobEvent> events;
  SqliteStatement& first = statements_->first_event;
  const SqliteScope first_scope(first);
  TALLY_ASSIGN_OR_RETURN(const bool any, first.Bind(1, number).Step());
  if (any && limit > 0 && after + 1 < first.Uint64(0)) {
    events.push_back(DroppedLines(first.Uint64(0), first.Double(1)));
  }
  SqliteStatement& select = statements_->events;
  const SqliteScope scope(select);
  select.Bind(1, number).Bind(2, after).Bind(3, uint64_t{limit} - events.size());
  for (;;) {
    TALLY_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return events;
    events.push_back(EventOfRow(select));
  }
}

}  // namespace tally
