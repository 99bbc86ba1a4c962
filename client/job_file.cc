#include "client/job_file.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/config/config.h"
#include "common/spec/check.h"
#include "common/spec/defaults.h"
#include "common/spec/names.h"

namespace tally {
namespace {

// What nobody could mean beyond; where a value also depends on others, the spec's check says so.
constexpr Uint64Range kWorkers{1, 255};
constexpr Uint64Range kBatch{1, uint64_t{1} << 20};
constexpr Uint64Range kShuffleBuffer{0, 1'000'000'000};
constexpr Uint64Range kChunkElements{0, uint64_t{1} << 27};  // a message of single bits
// Stands for the digest that the upload will give, so that the rest can be checked before it.
constexpr char kDigestToCome[] = "0000000000000000";

uint64_t Milliseconds(ConfigMap& map, absl::string_view key, uint64_t fallback) {
  const absl::Duration duration =
      map.Duration(key, {}, absl::Milliseconds(static_cast<int64_t>(fallback)));
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(duration));
}

uint32_t Uint32(ConfigMap& map, absl::string_view key, const Uint64Range& range,
                std::optional<uint64_t> fallback = std::nullopt) {
  return static_cast<uint32_t>(map.Uint64(key, range, fallback));
}

void ReadModel(ConfigMap map, v1::ModelSpec& model, std::string& base) {
  model.set_architecture(map.String("architecture"));
  model.set_config_json(map.Json("config", ""));
  base = map.String("base", "");
  if (map.Has("base") && base.empty()) map.ErrorHere("base", "expected a directory, found \"\"");
  model.set_reset_head(map.Bool("reset_head", false));
}

void ReadData(ConfigMap map, v1::DataSpec& data) {
  data.set_name(map.String("name"));
  data.set_shuffle_buffer(Uint32(map, "shuffle_buffer", kShuffleBuffer, kDefaultShuffleBuffer));
}

void ReadMethod(ConfigMap map, v1::MethodSpec& method) {
  method.set_name(map.OneOf("name", MethodNames()));
  const bool lion = method.name() == "distributed_lion";
  // Read without a choice of words where the method has no such key; the check then refuses it.
  method.set_aggregation(lion ? map.OneOf("aggregation", AggregationNames(), "majority")
                              : map.String("aggregation", ""));
  const bool majority = method.aggregation() == "majority";
  method.set_ties(majority ? map.OneOf("ties", TieNames(), "random") : map.String("ties", ""));
  const MethodDefaults defaults = DefaultsOf(method.name());
  method.set_beta1(map.Double("beta1", {}, defaults.beta1));
  method.set_beta2(map.Double("beta2", {}, defaults.beta2));
  method.set_epsilon(map.Double("epsilon", {}, defaults.epsilon));
  method.set_weight_decay(map.Double("weight_decay", {}, 0.0));
}

void ReadLearningRate(ConfigMap map, v1::LearningRate& rate) {
  rate.set_schedule(map.OneOf("schedule", ScheduleNames(), "constant"));
  rate.set_peak(map.Double("peak", {}));
  rate.set_final(map.Double("final", {}, 0.0));
  rate.set_warmup_rounds(map.Uint64("warmup_rounds", {}, 0));
}

void ReadWorkers(ConfigMap map, v1::WorkersSpec& workers) {
  workers.set_count(Uint32(map, "count", kWorkers));
  workers.set_quorum(Uint32(map, "quorum", kWorkers, workers.count()));
  workers.set_minimum(Uint32(map, "minimum", kWorkers, workers.quorum()));
  workers.set_max(Uint32(map, "max", kWorkers, workers.count()));
  workers.set_round_deadline_ms(Milliseconds(map, "round_deadline", kDefaultRoundDeadlineMs));
  workers.set_pause_limit_ms(Milliseconds(map, "pause_limit", kDefaultPauseLimitMs));
  workers.set_replace_after_ms(Milliseconds(map, "replace_after", 0));
  workers.set_device(map.OneOf("device", DeviceNames(), "any"));
  const std::map<std::string, std::string> none;
  for (const auto& [key, value] : map.StringMap("labels", none)) {
    (*workers.mutable_labels())[key] = value;
  }
}

JobFile ReadRoot(ConfigMap root) {
  JobFile file;
  v1::JobSpec& spec = file.spec;
  spec.set_name(root.String("name"));
  ReadModel(root.Map("model"), *spec.mutable_model(), file.base);
  ReadData(root.Map("data"), *spec.mutable_data());
  ReadMethod(root.Map("method"), *spec.mutable_method());
  ReadLearningRate(root.Map("learning_rate"), *spec.mutable_learning_rate());
  spec.set_rounds(root.Uint64("rounds", {}));
  spec.set_batch_size(Uint32(root, "batch_size", kBatch));
  ReadWorkers(root.Map("workers"), *spec.mutable_workers());
  spec.set_evaluate_every(root.Uint64("evaluate_every", {}, 100));
  spec.set_digest_every(root.Uint64("digest_every", {}, kDefaultDigestEvery));
  spec.set_snapshot_every(root.Uint64("snapshot_every", {}, 500));
  spec.set_seed(root.Uint64("seed", {}, kDefaultSeed));
  spec.set_chunk_elements(Uint32(root, "chunk_elements", kChunkElements, 0));
  return file;
}

// Keys whose check leans on other keys; silent while those have problems of their own.
const std::vector<std::pair<std::string, std::vector<std::string>>>& Leaning() {
  static const auto* leaning = new std::vector<std::pair<std::string, std::vector<std::string>>>{
      {"workers.quorum", {"workers.count"}},
      {"workers.minimum", {"workers.count", "workers.quorum"}},
      {"workers.max", {"workers.count"}},
      {"learning_rate.warmup_rounds", {"rounds"}},
      {"method.aggregation", {"method.name"}},
      {"method.ties", {"method.name", "method.aggregation"}},
      {"method.weight_decay", {"learning_rate.peak", "learning_rate.final"}},
      {"model", {"model.config", "model.base"}},
      {"model.reset_head", {"model.base"}}};
  return *leaning;
}

// Whether a problem of that key is among `problems`, lines of ProblemText.
bool Reported(absl::string_view problems, absl::string_view field) {
  return absl::StrContains(problems, absl::StrCat(": ", field, ": "));
}

// Problems of the document, and of the spec read from it.
bool IsNews(absl::string_view problems, const std::vector<SpecProblem>& spec_problems,
            const std::string& field) {
  if (Reported(problems, field)) return false;
  for (const auto& [leaning, others] : Leaning()) {
    if (leaning != field) continue;
    for (const std::string& other : others) {
      if (Reported(problems, other)) return false;
      for (const SpecProblem& problem : spec_problems) {
        if (problem.field == other) return false;
      }
    }
  }
  return true;
}

void ReportSpecProblems(ConfigDocument& document, const JobFile& file) {
  const absl::Status so_far = document.Finish();
  v1::JobSpec spec = file.spec;
  if (!file.base.empty()) spec.mutable_model()->set_base_digest(kDigestToCome);
  const std::vector<SpecProblem> problems = FindSpecProblems(spec);
  for (const SpecProblem& problem : problems) {
    if (!IsNews(so_far.message(), problems, problem.field)) continue;
    const std::pair<std::string, std::string> path =
        absl::StrSplit(problem.field, absl::MaxSplits('.', 1));
    const bool top = path.second.empty();
    ConfigMap map = top ? document.Root() : document.Root().Map(path.first);
    map.ErrorHere(top ? path.first : path.second, problem.message);
  }
}

std::string BesideFile(const std::string& file, const std::string& path) {
  return path.empty() ? "" : (std::filesystem::path(file).parent_path() / path).string();
}

}  // namespace

absl::StatusOr<JobFile> ReadJobFile(const std::string& path) {
  absl::StatusOr<ConfigDocument> document = ParseYaml(path);
  if (!document.ok()) return absl::InvalidArgumentError(document.status().message());
  JobFile file = ReadRoot(document->Root());
  ReportSpecProblems(*document, file);
  TALLY_RETURN_IF_ERROR(document->Finish());
  file.base = BesideFile(path, file.base);
  file.resolved = document->Resolved();
  return file;
}

}  // namespace tally
