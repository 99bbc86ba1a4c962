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
  data.set_hold_out_every(Uint32(map, "hold_out_every", kShuffleBuffer, 0));
}

void ReadLocal(ConfigMap map, const std::string& method, v1::LocalSpec& local) {
  local.set_steps(Uint32(map, "steps", {1, uint64_t{1} << 30}));
  local.set_optimiser(map.OneOf("optimiser", LocalOptimiserNames(), "adamw"));
  local.set_momentum(map.Double("momentum", {}, 0.0));
  local.set_dtype(map.OneOf("dtype", DtypeNames(method), "float32"));
  local.set_weights(
      map.OneOf("weights", WeightNames(), method == "fish" ? "samples" : "uniform"));
}

// `interpolate` is another word for a single average's outer rate.
void ReadOuter(ConfigMap map, uint64_t rounds, v1::LofiSpec& lofi) {
  if (!map.Has("interpolate")) {
    lofi.set_outer(map.OneOf("outer", OuterNames(), "sgd"));
    const OuterDefaults defaults = OuterDefaultsOf(lofi.outer());
    lofi.set_outer_learning_rate(map.Double("outer_learning_rate", {}, defaults.learning_rate));
    lofi.set_outer_momentum(map.Double("outer_momentum", {}, defaults.momentum));
    return;
  }
  lofi.set_outer("sgd");
  lofi.set_outer_learning_rate(map.Double("interpolate", {0, 1}));
  for (const char* key : {"outer", "outer_learning_rate", "outer_momentum"}) {
    if (map.Has(key)) map.ErrorHere(key, "expected no such key beside interpolate, found one");
  }
  if (rounds > 1) {
    map.ErrorHere("interpolate", absl::StrCat("expected one average (rounds: 1), found ", rounds,
                                              "; use outer_learning_rate"));
  }
}

void ReadLofi(ConfigMap map, uint64_t rounds, v1::LofiSpec& lofi) {
  ReadOuter(map, rounds, lofi);
  lofi.set_soup(map.OneOf("soup", SoupNames(), "uniform"));
  lofi.set_recalibrate_batches(Uint32(map, "recalibrate_batches", {0, uint64_t{1} << 20}, 0));
}

void ReadFish(ConfigMap map, v1::FishSpec& fish) {
  fish.set_mask_size(map.Uint64("mask_size", {}, 0));
  fish.set_density(map.Double("density", {}, 0.0));
  fish.set_fisher(map.OneOf("fisher", FisherNames(), "empirical"));
  const bool random = fish.fisher() == "random";
  fish.set_samples(
      Uint32(map, "samples", {0, uint64_t{1} << 24}, random ? 0 : kDefaultFisherSamples));
  fish.set_refresh_every(map.Uint64("refresh_every", {}, kDefaultRefreshEvery));
}

// A section that belongs to no other method; elsewhere the check refuses it.
bool HasSection(ConfigMap& map, absl::string_view key, bool belongs) {
  return belongs || map.Has(key);
}

void ReadSections(ConfigMap map, uint64_t rounds, v1::MethodSpec& method) {
  const std::string& name = method.name();
  if (HasSection(map, "local", HasLocalSteps(method))) {
    ReadLocal(map.Map("local"), name, *method.mutable_local());
  }
  if (HasSection(map, "lofi", name == "lofi")) {
    ReadLofi(map.Map("lofi"), rounds, *method.mutable_lofi());
  }
  if (HasSection(map, "fish", name == "fish")) ReadFish(map.Map("fish"), *method.mutable_fish());
}

void ReadMethod(ConfigMap map, uint64_t rounds, v1::MethodSpec& method) {
  method.set_name(map.OneOf("name", MethodNames()));
  const bool lion = method.name() == "distributed_lion";
  // Read without a choice of words where the method has no such key; the check then refuses it.
  method.set_aggregation(lion ? map.OneOf("aggregation", AggregationNames(), "majority")
                              : map.String("aggregation", ""));
  const bool majority = method.aggregation() == "majority";
  method.set_ties(majority ? map.OneOf("ties", TieNames(), "random") : map.String("ties", ""));
  ReadSections(map, rounds, method);
  const MethodDefaults defaults = DefaultsOf(OptimiserOf(method));
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
  rate.set_warmup_steps(map.Uint64("warmup_steps", {}, 0));
}

void ReadWorkers(ConfigMap map, uint64_t round_deadline_ms, v1::WorkersSpec& workers) {
  workers.set_count(Uint32(map, "count", kWorkers));
  workers.set_quorum(Uint32(map, "quorum", kWorkers, workers.count()));
  workers.set_minimum(Uint32(map, "minimum", kWorkers, workers.quorum()));
  workers.set_max(Uint32(map, "max", kWorkers, workers.count()));
  workers.set_round_deadline_ms(Milliseconds(map, "round_deadline", round_deadline_ms));
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
  spec.set_rounds(root.Uint64("rounds", {}));
  ReadMethod(root.Map("method"), spec.rounds(), *spec.mutable_method());
  ReadLearningRate(root.Map("learning_rate"), *spec.mutable_learning_rate());
  spec.set_batch_size(Uint32(root, "batch_size", kBatch));
  ReadWorkers(root.Map("workers"), DefaultRoundDeadlineMs(spec.method()), *spec.mutable_workers());
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
      {"learning_rate.warmup_rounds", {"rounds", "method.name"}},
      {"learning_rate.warmup_steps", {"rounds", "method.name", "method.local.steps"}},
      {"method.aggregation", {"method.name"}},
      {"method.ties", {"method.name", "method.aggregation"}},
      {"method.beta1", {"method.local.optimiser"}},
      {"method.beta2", {"method.local.optimiser"}},
      {"method.epsilon", {"method.name", "method.local.optimiser"}},
      {"method.local.momentum", {"method.local.optimiser"}},
      {"method.local.dtype", {"method.name"}},
      {"method.lofi.outer_momentum", {"method.lofi.outer", "method.lofi.interpolate"}},
      {"method.fish.samples", {"method.fish.fisher"}},
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
    const std::vector<std::string> path = absl::StrSplit(problem.field, '.');
    ConfigMap map = document.Root();
    for (size_t i = 0; i + 1 < path.size(); ++i) map = map.Map(path[i]);
    map.ErrorHere(path.back(), problem.message);
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
