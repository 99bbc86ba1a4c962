#include "common/spec/check.h"

#include <functional>
#include <limits>
#include <string>

#include "common/base/status_matchers.h"
#include "tests/common/spec/valid_spec.h"

namespace tally {
namespace {

using ::tally::testing::IsOk;
using ::tally::testing::ValidSpec;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CheckJobSpec, AcceptsAValidSpec) { TALLY_EXPECT_OK(CheckJobSpec(ValidSpec())); }

v1::JobSpec ValidLofi() {
  v1::JobSpec spec = ValidSpec();
  v1::MethodSpec& method = *spec.mutable_method();
  method.set_name("lofi");
  method.clear_aggregation();
  method.clear_ties();
  method.set_epsilon(1e-8);
  v1::LocalSpec& local = *method.mutable_local();
  local.set_steps(10);
  local.set_optimiser("adamw");
  local.set_dtype("bf16");
  local.set_weights("samples");
  method.mutable_lofi()->set_outer("nesterov");
  method.mutable_lofi()->set_outer_learning_rate(0.7);
  method.mutable_lofi()->set_outer_momentum(0.9);
  method.mutable_lofi()->set_soup("uniform");
  return spec;
}

TEST(CheckJobSpec, AcceptsLofi) { TALLY_EXPECT_OK(CheckJobSpec(ValidLofi())); }

v1::JobSpec ValidFish() {
  v1::JobSpec spec = ValidLofi();
  v1::MethodSpec& method = *spec.mutable_method();
  method.set_name("fish");
  method.clear_lofi();
  method.mutable_local()->set_dtype("sign");
  method.mutable_fish()->set_density(0.02);
  method.mutable_fish()->set_fisher("empirical");
  method.mutable_fish()->set_samples(256);
  return spec;
}

TEST(CheckJobSpec, AcceptsFish) {
  v1::JobSpec spec = ValidFish();
  TALLY_EXPECT_OK(CheckJobSpec(spec));
  spec.mutable_method()->mutable_fish()->set_fisher("random");
  spec.mutable_method()->mutable_fish()->clear_samples();
  TALLY_EXPECT_OK(CheckJobSpec(spec));
}

TEST(CheckJobSpec, AcceptsAGreedySoupWithHeldOutRows) {
  v1::JobSpec spec = ValidLofi();
  v1::LofiSpec& lofi = *spec.mutable_method()->mutable_lofi();
  lofi.set_outer("sgd");
  lofi.set_outer_learning_rate(1);
  lofi.clear_outer_momentum();
  lofi.set_soup("greedy");
  lofi.set_recalibrate_batches(20);
  EXPECT_THAT(FindSpecProblems(spec), ::testing::SizeIs(1));
  spec.mutable_data()->set_hold_out_every(10);
  TALLY_EXPECT_OK(CheckJobSpec(spec));
}

struct Case {
  const char* field;
  const char* found;
  std::function<void(v1::JobSpec&)> spoil;
};

class Spoiled : public ::testing::TestWithParam<Case> {};

TEST_P(Spoiled, NamesFieldAndWhatWasFound) {
  v1::JobSpec spec = ValidSpec();
  GetParam().spoil(spec);
  const auto problems = FindSpecProblems(spec);
  ASSERT_THAT(problems, ::testing::SizeIs(1)) << CheckJobSpec(spec);
  EXPECT_EQ(problems[0].field, GetParam().field);
  EXPECT_THAT(problems[0].message, AllOf(HasSubstr("expected "), HasSubstr(GetParam().found)));
}

class SpoiledLofi : public ::testing::TestWithParam<Case> {};

TEST_P(SpoiledLofi, NamesFieldAndWhatWasFound) {
  v1::JobSpec spec = ValidLofi();
  GetParam().spoil(spec);
  const auto problems = FindSpecProblems(spec);
  ASSERT_THAT(problems, ::testing::SizeIs(1)) << CheckJobSpec(spec);
  EXPECT_EQ(problems[0].field, GetParam().field);
  EXPECT_THAT(problems[0].message, AllOf(HasSubstr("expected "), HasSubstr(GetParam().found)));
}

class SpoiledFish : public ::testing::TestWithParam<Case> {};

TEST_P(SpoiledFish, NamesFieldAndWhatWasFound) {
  v1::JobSpec spec = ValidFish();
  GetParam().spoil(spec);
  const auto problems = FindSpecProblems(spec);
  ASSERT_THAT(problems, ::testing::SizeIs(1)) << CheckJobSpec(spec);
  EXPECT_EQ(problems[0].field, GetParam().field);
  EXPECT_THAT(problems[0].message, AllOf(HasSubstr("expected "), HasSubstr(GetParam().found)));
}

INSTANTIATE_TEST_SUITE_P(
    OneField, SpoiledFish,
    ::testing::Values(
        Case{"method.fish.density", "neither",
             [](auto& s) { s.mutable_method()->mutable_fish()->clear_density(); }},
        Case{"method.fish.density", "both",
             [](auto& s) { s.mutable_method()->mutable_fish()->set_mask_size(10); }},
        Case{"method.fish.density", "1.5",
             [](auto& s) { s.mutable_method()->mutable_fish()->set_density(1.5); }},
        Case{"method.fish.density", "-0.1",
             [](auto& s) { s.mutable_method()->mutable_fish()->set_density(-0.1); }},
        Case{"method.fish.fisher", "\"diagonal\"",
             [](auto& s) { s.mutable_method()->mutable_fish()->set_fisher("diagonal"); }},
        Case{"method.fish.samples", "0",
             [](auto& s) { s.mutable_method()->mutable_fish()->clear_samples(); }},
        Case{"method.fish.samples", "256",
             [](auto& s) { s.mutable_method()->mutable_fish()->set_fisher("random"); }},
        Case{"method.local.dtype", "\"fp16\"",
             [](auto& s) { s.mutable_method()->mutable_local()->set_dtype("fp16"); }},
        Case{"method.lofi", "one", [](auto& s) { s.mutable_method()->mutable_lofi(); }},
        Case{"data.hold_out_every", "1", [](auto& s) { s.mutable_data()->set_hold_out_every(1); }}));

INSTANTIATE_TEST_SUITE_P(
    OneField, SpoiledLofi,
    ::testing::Values(
        Case{"method.local.steps", "0",
             [](auto& s) { s.mutable_method()->mutable_local()->set_steps(0); }},
        Case{"method.local.optimiser", "\"adam\"",
             [](auto& s) {
               s.mutable_method()->clear_epsilon();
               s.mutable_method()->mutable_local()->set_optimiser("adam");
             }},
        Case{"method.local.momentum", "0.9",
             [](auto& s) { s.mutable_method()->mutable_local()->set_momentum(0.9); }},
        Case{"method.local.dtype", "\"sign\"",
             [](auto& s) { s.mutable_method()->mutable_local()->set_dtype("sign"); }},
        Case{"method.local.weights", "\"\"",
             [](auto& s) { s.mutable_method()->mutable_local()->clear_weights(); }},
        Case{"method.lofi.outer", "\"adam\"",
             [](auto& s) {
               s.mutable_method()->mutable_lofi()->set_outer("adam");
               s.mutable_method()->mutable_lofi()->clear_outer_momentum();
             }},
        Case{"method.lofi.outer_learning_rate", "0",
             [](auto& s) { s.mutable_method()->mutable_lofi()->clear_outer_learning_rate(); }},
        Case{"method.lofi.outer_momentum", "1",
             [](auto& s) { s.mutable_method()->mutable_lofi()->set_outer_momentum(1); }},
        Case{"method.lofi.soup", "\"none\"",
             [](auto& s) { s.mutable_method()->mutable_lofi()->set_soup("none"); }},
        Case{"method.fish", "one", [](auto& s) { s.mutable_method()->mutable_fish(); }},
        Case{"method.lofi.recalibrate_batches", "2000000",
             [](auto& s) { s.mutable_method()->mutable_lofi()->set_recalibrate_batches(2'000'000); }},
        Case{"method.lofi.outer", "nesterov",
             [](auto& s) {
               s.mutable_method()->mutable_lofi()->set_soup("greedy");
               s.mutable_data()->set_hold_out_every(4);
             }},
        Case{"learning_rate.warmup_rounds", "3",
             [](auto& s) { s.mutable_learning_rate()->set_warmup_rounds(3); }},
        Case{"learning_rate.warmup_steps", "1001",
             [](auto& s) { s.mutable_learning_rate()->set_warmup_steps(1001); }}));

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    OneField, Spoiled,
    ::testing::Values(
        Case{"name", "\"\"", [](auto& s) { s.set_name(""); }},
        Case{"name", "\"..\"", [](auto& s) { s.set_name(".."); }},
        Case{"name", "../x", [](auto& s) { s.set_name("../x"); }},
        Case{"name", "a\\\\b", [](auto& s) { s.set_name("a\\b"); }},
        Case{"name", "\\x00", [](auto& s) { s.set_name(std::string("a\0b", 3)); }},
        Case{"name", "\\n", [](auto& s) { s.set_name("a\nb"); }},
        Case{"name", "(5000 characters)", [](auto& s) { s.set_name(std::string(5000, 'x')); }},
        Case{"model.architecture", "\"\"",
             [](auto& s) { s.mutable_model()->clear_architecture(); }},
        Case{"model.architecture", "a/b",
             [](auto& s) { s.mutable_model()->set_architecture("a/b"); }},
        Case{"model.config", "[1]", [](auto& s) { s.mutable_model()->set_config_json("[1]"); }},
        Case{"model.config", "{", [](auto& s) { s.mutable_model()->set_config_json("{"); }},
        Case{"model.base", "xyz", [](auto& s) { s.mutable_model()->set_base_digest("xyz"); }},
        Case{"model", "neither", [](auto& s) { s.mutable_model()->clear_config_json(); }},
        Case{"model.reset_head", "true",
             [](auto& s) { s.mutable_model()->set_reset_head(true); }},
        Case{"data.name", "\"\"", [](auto& s) { s.mutable_data()->clear_name(); }},
        Case{"method.name", "lion", [](auto& s) { s.mutable_method()->set_name("lion"); }},
        Case{"method.ties", "random",
             [](auto& s) { s.mutable_method()->set_aggregation("average"); }},
        Case{"method.ties", "minus", [](auto& s) { s.mutable_method()->set_ties("minus"); }},
        Case{"method.beta1", "1", [](auto& s) { s.mutable_method()->set_beta1(1); }},
        Case{"method.beta1", "nan", [](auto& s) { s.mutable_method()->set_beta1(kNan); }},
        Case{"method.beta2", "-0.1", [](auto& s) { s.mutable_method()->set_beta2(-0.1); }},
        Case{"method.epsilon", "1e-08", [](auto& s) { s.mutable_method()->set_epsilon(1e-8); }},
        Case{"method.weight_decay", "-1",
             [](auto& s) { s.mutable_method()->set_weight_decay(-1); }},
        Case{"method.weight_decay", "found 1",
             [](auto& s) { s.mutable_method()->set_weight_decay(1000); }},
        Case{"learning_rate.schedule", "step",
             [](auto& s) { s.mutable_learning_rate()->set_schedule("step"); }},
        Case{"learning_rate.peak", "found 0",
             [](auto& s) { s.mutable_learning_rate()->set_peak(0); }},
        Case{"learning_rate.peak", "nan",
             [](auto& s) { s.mutable_learning_rate()->set_peak(kNan); }},
        Case{"learning_rate.final", "inf",
             [](auto& s) {
               s.mutable_learning_rate()->set_final(kInf);
               s.mutable_method()->set_weight_decay(0);
             }},
        Case{"learning_rate.warmup_rounds", "101",
             [](auto& s) { s.mutable_learning_rate()->set_warmup_rounds(101); }},
        Case{"rounds", "found 0", [](auto& s) { s.set_rounds(0); }},
        Case{"rounds", "18446744073709551615", [](auto& s) { s.set_rounds(~uint64_t{0}); }},
        Case{"batch_size", "found 0", [](auto& s) { s.set_batch_size(0); }},
        Case{"digest_every", "found 0", [](auto& s) { s.set_digest_every(0); }},
        Case{"workers.count", "256", [](auto& s) { s.mutable_workers()->set_count(256); }},
        Case{"workers.quorum", "found 5", [](auto& s) { s.mutable_workers()->set_quorum(5); }},
        Case{"workers.minimum", "found 4", [](auto& s) { s.mutable_workers()->set_minimum(4); }},
        Case{"workers.minimum", "found 0", [](auto& s) { s.mutable_workers()->set_minimum(0); }},
        Case{"workers.max", "found 3", [](auto& s) { s.mutable_workers()->set_max(3); }},
        Case{"workers.max", "found 256", [](auto& s) { s.mutable_workers()->set_max(256); }},
        Case{"workers.replace_after", "604800001 ms",
             [](auto& s) { s.mutable_workers()->set_replace_after_ms(604800001); }},
        Case{"data.shuffle_buffer", "found 1000000001",
             [](auto& s) { s.mutable_data()->set_shuffle_buffer(1000000001); }},
        Case{"workers.round_deadline", "0 ms",
             [](auto& s) { s.mutable_workers()->set_round_deadline_ms(0); }},
        Case{"workers.device", "tpu", [](auto& s) { s.mutable_workers()->set_device("tpu"); }},
        Case{"workers.labels", "\\n",
             [](auto& s) { (*s.mutable_workers()->mutable_labels())["a"] = "b\nc"; }},
        Case{"chunk_elements", "found 63", [](auto& s) { s.set_chunk_elements(63); }},
        Case{"chunk_elements", "found 4194304000",
             [](auto& s) { s.set_chunk_elements(4194304000); }}));

TEST(CheckJobSpec, ListsEveryProblem) {
  const absl::Status status = CheckJobSpec(v1::JobSpec());
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("name: "), HasSubstr("\nmodel: "), HasSubstr("\nrounds: "),
                    HasSubstr("\nlearning_rate.peak: "), HasSubstr("\nworkers.count: ")));
}

TEST(CheckJobSpec, DenseChunksAreLimitedByTheirFourBytes) {
  v1::JobSpec spec = ValidSpec();
  spec.set_chunk_elements(8u << 20);
  TALLY_EXPECT_OK(CheckJobSpec(spec));  // one bit each: 1 MiB
  v1::MethodSpec& method = *spec.mutable_method();
  method.set_name("global_lion");
  method.clear_aggregation();
  method.clear_ties();
  EXPECT_THAT(CheckJobSpec(spec), Not(IsOk()));  // 32 MiB
  spec.set_chunk_elements(262144);
  TALLY_EXPECT_OK(CheckJobSpec(spec));
}

TEST(IsToken, TakesIdsAlone) {
  EXPECT_TRUE(IsToken("A-z_09"));
  EXPECT_FALSE(IsToken(""));
  EXPECT_FALSE(IsToken("a b"));
  EXPECT_FALSE(IsToken(std::string(65, 'a')));
}

}  // namespace
}  // namespace tally
