#include "server/status/pages.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/status/proto_json.h"
#include "tests/server/status/fake_source.h"

namespace tally {
namespace {

using testing::FakeSource;
using testing::MakeJob;
using testing::MakeSnapshot;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

class PagesTest : public ::testing::Test {
 protected:
  PagesTest() { source_.Set(MakeSnapshot()); }
  Page Get(const std::string& path) { return AnswerPage("GET", path, source_, metrics_); }
  Json GetJson(const std::string& path, int status = 200) {
    const Page page = Get(path);
    EXPECT_EQ(page.status, status) << path;
    EXPECT_EQ(page.type, "application/json");
    return Json::parse(page.body);
  }

  FakeSource source_;
  Metrics metrics_;
};

TEST_F(PagesTest, Status) {
  const Json status = GetJson("/status");
  EXPECT_EQ(status["version"], "1.2.3");
  EXPECT_EQ(status["address"], "127.0.0.1:7070");
  EXPECT_EQ(status["uptime_seconds"], 1.5);
  ASSERT_EQ(status["jobs"].size(), 2u);
  EXPECT_EQ(status["jobs"][0]["job_id"], "job-2");
  EXPECT_EQ(status["workers"][0]["job_id"], "job-2");
  EXPECT_EQ(status["workers"][1]["job_id"], "");
}

TEST_F(PagesTest, StatusOfAnIdleServerHasEmptyLists) {
  source_.Set(StatusSnapshot());
  const Json status = GetJson("/status");
  EXPECT_EQ(status["jobs"], Json::array());
  EXPECT_EQ(status["workers"], Json::array());
}

TEST_F(PagesTest, OneJob) {
  EXPECT_EQ(GetJson("/jobs/job-1")["state"], "SUCCEEDED");
  EXPECT_EQ(GetJson("/jobs/job-7", 404)["error"], "job-7: no such job");
  GetJson("/jobs/", 404);
  GetJson("/jobs", 404);
  GetJson("/jobs/job-1/x", 404);
}

TEST_F(PagesTest, Health) {
  EXPECT_EQ(GetJson("/healthz")["status"], "ok");
  source_.SetHealth(absl::UnavailableError("the disk is full"));
  const Json health = GetJson("/healthz", 503);
  EXPECT_EQ(health["status"], "unavailable");
  EXPECT_EQ(health["reason"], "the disk is full");
  source_.SetHealth(absl::OkStatus());
  GetJson("/healthz");
}

TEST_F(PagesTest, Metrics) {
  const Page page = Get("/metrics");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("\ntally_workers{state=\"free\"} 2\n"));
}

TEST_F(PagesTest, OtherPathsAndMethods) {
  for (const char* path : {"", "/x", "/status/", "//", "/../etc/passwd", "/STATUS"}) {
    EXPECT_THAT(GetJson(path, 404)["error"], HasSubstr("no such page")) << path;
  }
  GetJson(std::string(8000, 'a'), 404);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get"}) {
    EXPECT_EQ(AnswerPage(method, "/status", source_, metrics_).status, 405) << method;
  }
  EXPECT_EQ(AnswerPage("HEAD", "/status", source_, metrics_).status, 200);
}

TEST_F(PagesTest, DashboardStandsAlone) {
  const Page page = Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.type, "text/html; charset=utf-8");
  for (const char* outside : {"http://", "https://", " src=", "@import", "url("}) {
    EXPECT_THAT(page.body, Not(HasSubstr(outside)));
  }
  // Text from outside must have no way in as HTML.
  for (const char* hole : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"}) {
    EXPECT_THAT(page.body, Not(HasSubstr(hole)));
  }
}

TEST(ProtoJson, EveryFieldUnderItsOwnName) {
  const Json job = ProtoToJson(MakeJob("job-1", v1::FINALIZING));
  const auto* type = v1::JobStatus::descriptor();
  EXPECT_EQ(job.size(), static_cast<size_t>(type->field_count()));
  for (int i = 0; i < type->field_count(); ++i) {
    EXPECT_TRUE(job.contains(type->field(i)->name())) << type->field(i)->name();
  }
  EXPECT_EQ(job["queue_position"], 0);
  EXPECT_EQ(job["evaluation"]["correct"], 0);
  EXPECT_EQ(job["state"], "FINALIZING");
}

TEST(ProtoJson, WideIntegersAreNumbers) {
  const Json job = ProtoToJson(MakeJob("job-1", v1::RUNNING));
  EXPECT_THAT(job.dump(), HasSubstr("\"seed\":18446744073709551615"));
}

TEST(ProtoJson, WhatIsNotFiniteIsNull) {
  v1::JobStatus job;
  job.set_loss(std::numeric_limits<double>::quiet_NaN());
  job.set_bits_up(std::numeric_limits<double>::infinity());
  const Json json = ProtoToJson(job);
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["bits_up"].is_null());
  EXPECT_EQ(json["bits_down"], 0.0);
}

TEST(ProtoJson, MapsByKeyAndLists) {
  v1::WorkerInfo worker;
  for (const char* key : {"z", "a", "m"}) (*worker.mutable_labels())[key] = "1";
  worker.add_data_sets("x");
  worker.add_data_sets("y");
  const Json json = ProtoToJson(worker);
  EXPECT_EQ(json["labels"].dump(), R"({"a":"1","m":"1","z":"1"})");
  EXPECT_EQ(json["data_sets"].dump(), R"(["x","y"])");
}

TEST(ProtoJson, UnknownEnumIsItsNumberAndBadTextIsReplaced) {
  v1::JobStatus job;
  job.set_state(static_cast<v1::JobState>(77));
  job.set_reason("bad \xff byte");
  const std::string text = JsonText(ProtoToJson(job));
  EXPECT_THAT(text, HasSubstr("\"state\":\"77\""));
  EXPECT_EQ(Json::parse(text)["reason"], "bad \uFFFD byte");
}

TEST(ProtoJson, PayloadBytesAreLeftOut) {
  v1::FilePart part;
  part.set_data("secret");
  EXPECT_FALSE(ProtoToJson(part).contains("data"));
}

}  // namespace
}  // namespace tally
