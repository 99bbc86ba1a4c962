#include "common/spec/check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "common/rpc/limits.h"
#include "common/spec/check_method.h"
#include "common/spec/names.h"
#include "common/spec/problems.h"
#include "nlohmann/json.hpp"

namespace tally {
namespace {

constexpr uint32_t kMaxWorkers = 255;  // a worker's index is one byte in the votes' counts
constexpr uint64_t kMaxRounds = uint64_t{1} << 40;
constexpr uint32_t kMaxBatch = 1u << 20;
constexpr uint64_t kMaxDurationMs = uint64_t{7} * 24 * 3600 * 1000;
constexpr int kMaxLabels = 64;
constexpr uint32_t kMaxShuffleBuffer = 1'000'000'000;
constexpr uint32_t kMaxHoldOutEvery = 1u << 20;
constexpr uint32_t kLane = 64;

bool IsOneOf(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Words(const std::vector<std::string>& names) {
  return absl::StrCat("one of ", absl::StrJoin(names, ", "));
}

template <typename Allowed>
bool IsPlain(absl::string_view text, size_t max_length, Allowed allowed) {
  return !text.empty() && text.size() <= max_length &&
         std::all_of(text.begin(), text.end(), allowed);
}

bool IsIdentifier(absl::string_view text) {
  return IsPlain(text, 64, [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
}

bool IsDigest(absl::string_view text) {
  return text.size() == 16 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

bool IsNonNegative(double value) { return std::isfinite(value) && value >= 0; }

bool IsJsonObject(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false).is_object();
}

void CheckModel(const v1::ModelSpec& model, Problems& problems) {
  problems.Check(IsIdentifier(model.architecture()), "model.architecture",
                 "1 to 64 characters of A-Z, a-z, 0-9, '.', '_', '-'",
                 Quoted(model.architecture()));
  const std::string& config = model.config_json();
  problems.Check(config.empty() || IsJsonObject(config), "model.config", "a JSON object",
                 Quoted(config));
  const std::string& base = model.base_digest();
  problems.Check(base.empty() || IsDigest(base), "model.base", "16 hexadecimal digits",
                 Quoted(base));
  problems.Check(!config.empty() || !base.empty(), "model", "a config or a base model", "neither");
  problems.Check(!model.reset_head() || !base.empty(), "model.reset_head",
                 "false without a base model", "true");
}

void CheckWarmup(const v1::JobSpec& spec, Problems& problems) {
  const v1::LearningRate& rate = spec.learning_rate();
  const bool local = HasLocalSteps(spec.method());
  const uint64_t rounds = local ? 0 : spec.rounds();
  problems.Check(rate.warmup_rounds() <= rounds, "learning_rate.warmup_rounds",
                 local ? "warmup_steps instead, in local steps"
                       : absl::StrCat("at most rounds, ", rounds),
                 rate.warmup_rounds());
  const uint64_t steps = local ? spec.rounds() * spec.method().local().steps() : 0;
  problems.Check(rate.warmup_steps() <= steps, "learning_rate.warmup_steps",
                 local ? absl::StrCat("at most rounds * local steps, ", steps)
                       : "no such key unless the method has local steps",
                 rate.warmup_steps());
}

void CheckLearningRate(const v1::JobSpec& spec, Problems& problems) {
  const v1::LearningRate& rate = spec.learning_rate();
  const std::string& schedule = rate.schedule();
  problems.Check(IsOneOf(ScheduleNames(), schedule), "learning_rate.schedule",
                 Words(ScheduleNames()), Quoted(schedule));
  problems.Check(std::isfinite(rate.peak()) && rate.peak() > 0, "learning_rate.peak",
                 "a number above 0", rate.peak());
  problems.Check(IsNonNegative(rate.final()), "learning_rate.final", "a number of at least 0",
                 rate.final());
  CheckWarmup(spec, problems);
  // At 1 the decay alone would set every parameter to zero, beyond it flip signs.
  const double shrink = std::max(rate.peak(), rate.final()) * spec.method().weight_decay();
  problems.Check(!(shrink >= 1), "method.weight_decay", "learning rate * weight decay below 1",
                 shrink);
}

bool IsLabelText(absl::string_view text) {
  return IsPlain(text, 64, [](unsigned char c) { return absl::ascii_isprint(c); });
}

void CheckLabels(const v1::WorkersSpec& workers, Problems& problems) {
  problems.Check(workers.labels().size() <= kMaxLabels, "workers.labels", "at most 64 labels",
                 workers.labels().size());
  for (const auto& [key, value] : workers.labels()) {
    problems.Check(IsLabelText(key) && IsLabelText(value), "workers.labels",
                   "keys and values of 1 to 64 printable characters",
                   absl::StrCat(Quoted(key), ": ", Quoted(value)));
  }
}

void CheckWorkers(const v1::WorkersSpec& workers, Problems& problems) {
  const uint32_t count = workers.count();
  problems.Check(count >= 1 && count <= kMaxWorkers, "workers.count", "1 to 255 workers", count);
  problems.Check(workers.quorum() >= 1 && workers.quorum() <= count, "workers.quorum",
                 absl::StrCat("1 to count, ", count), workers.quorum());
  problems.Check(workers.minimum() >= 1 && workers.minimum() <= workers.quorum(), "workers.minimum",
                 absl::StrCat("1 to quorum, ", workers.quorum()), workers.minimum());
  problems.Check(workers.round_deadline_ms() >= 1 && workers.round_deadline_ms() <= kMaxDurationMs,
                 "workers.round_deadline", "1 ms to 7 days",
                 absl::StrCat(workers.round_deadline_ms(), " ms"));
  problems.Check(workers.pause_limit_ms() <= kMaxDurationMs, "workers.pause_limit",
                 "at most 7 days", absl::StrCat(workers.pause_limit_ms(), " ms"));
  const std::string& device = workers.device();
  problems.Check(IsOneOf(DeviceNames(), device), "workers.device", Words(DeviceNames()),
                 Quoted(device));
  // 0, of jobs from before there was a maximum: count.
  const bool has_max = workers.max() != 0;
  problems.Check(!has_max || (workers.max() >= count && workers.max() <= kMaxWorkers), "workers.max",
                 absl::StrCat("count, ", count, ", to ", kMaxWorkers, " workers"), workers.max());
  problems.Check(workers.replace_after_ms() <= kMaxDurationMs, "workers.replace_after",
                 "at most 7 days", absl::StrCat(workers.replace_after_ms(), " ms"));
  CheckLabels(workers, problems);
}

// Bits that one element of the method's widest payload takes at most.
uint64_t WidestBits(const v1::MethodSpec& method) {
  if (method.name() == "fish") return 64;  // a value, and its index in whatever encoding
  if (method.name() != "distributed_lion") return 32;
  return method.aggregation() == "majority" ? 3 : 9;  // signs and zeros, or counts; silent lanes
}

void CheckChunks(const v1::JobSpec& spec, Problems& problems) {
  const uint64_t elements = spec.chunk_elements();
  const uint64_t limit =
      uint64_t{kMaxMessageBytes - kMessageHeadroomBytes} * 8 / WidestBits(spec.method());
  problems.Check(elements % kLane == 0, "chunk_elements", "a multiple of 64, or 0", elements);
  problems.Check(elements <= limit, "chunk_elements",
                 absl::StrCat("at most ", limit / kLane * kLane, ", so that it fits a message"),
                 elements);
}

void CheckSchedule(const v1::JobSpec& spec, Problems& problems) {
  problems.Check(spec.rounds() >= 1 && spec.rounds() <= kMaxRounds, "rounds",
                 absl::StrCat("1 to ", kMaxRounds), spec.rounds());
  problems.Check(spec.batch_size() >= 1 && spec.batch_size() <= kMaxBatch, "batch_size",
                 absl::StrCat("1 to ", kMaxBatch), spec.batch_size());
  problems.Check(spec.digest_every() >= 1, "digest_every", "at least 1", spec.digest_every());
}

}  // namespace

bool IsJobName(absl::string_view name) {
  const auto allowed = [](unsigned char c) {
    return absl::ascii_isprint(c) && c != '/' && c != '\\';
  };
  return IsPlain(name, 200, allowed) && name != "." && name != ".." && name.front() != ' ' &&
         name.back() != ' ';
}

bool IsToken(absl::string_view token) {
  return IsPlain(token, 64,
                 [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-'; });
}

std::vector<SpecProblem> FindSpecProblems(const v1::JobSpec& spec) {
  Problems problems;
  problems.Check(IsJobName(spec.name()), "name",
                 "1 to 200 printable ASCII characters, no / or \\, not . or ..",
                 Quoted(spec.name()));
  CheckModel(spec.model(), problems);
  problems.Check(IsIdentifier(spec.data().name()), "data.name",
                 "1 to 64 characters of A-Z, a-z, 0-9, '.', '_', '-'", Quoted(spec.data().name()));
  problems.Check(spec.data().shuffle_buffer() <= kMaxShuffleBuffer, "data.shuffle_buffer",
                 absl::StrCat("at most ", kMaxShuffleBuffer, " examples"),
                 spec.data().shuffle_buffer());
  const uint32_t hold_out = spec.data().hold_out_every();
  problems.Check(hold_out != 1 && hold_out <= kMaxHoldOutEvery, "data.hold_out_every",
                 absl::StrCat("0, or 2 to ", kMaxHoldOutEvery), hold_out);
  CheckMethod(spec, problems);
  CheckSchedule(spec, problems);
  CheckLearningRate(spec, problems);
  CheckWorkers(spec.workers(), problems);
  CheckChunks(spec, problems);
  return std::move(problems).Take();
}

absl::Status CheckJobSpec(const v1::JobSpec& spec) {
  const std::vector<SpecProblem> problems = FindSpecProblems(spec);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrJoin(problems, "\n", [](std::string* out, const SpecProblem& problem) {
        absl::StrAppend(out, problem.field, ": ", problem.message);
      }));
}

}  // namespace tally
