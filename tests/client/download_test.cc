#include <fstream>
#include <sstream>

#include "nlohmann/json.hpp"
#include "tests/client/command_test.h"

namespace tally::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::FilePart Part(const std::string& name, uint64_t size, const std::string& data) {
  v1::FilePart part;
  part.set_name(name);
  part.set_size(size);
  part.set_data(data);
  return part;
}

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class Download : public CommandTest {
 protected:
  Download() {
    service().parts = {Part("config.json", 2, "{}"), Part("model.safetensors", 6, "abc"),
                       Part("", 0, "def")};
  }
  std::string out() const { return folder() + "/out"; }
  void ExpectRefused(const std::string& words) {
    const Result result = Run({"download", "job-1", "-o", out()});
    EXPECT_EQ(result.code, ExitCode::kFailed) << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_TRUE(NamesIn(folder()).empty()) << ::testing::PrintToString(NamesIn(folder()));
  }
};

TEST_F(Download, WritesTheFiles) {
  const Result result = Run({"download", "job-1", "-o", out() + "/"});
  EXPECT_EQ(result.code, ExitCode::kOk) << result.err;
  EXPECT_THAT(NamesIn(folder()), ElementsAre("out"));
  EXPECT_THAT(NamesIn(out()), ElementsAre("config.json", "model.safetensors"));
  EXPECT_EQ(Contents(out() + "/model.safetensors"), "abcdef");
}

TEST_F(Download, JsonSaysWhereAndHowMuch) {
  const auto json = nlohmann::json::parse(Run({"download", "job-1", "-o", out(), "--json"}).out);
  EXPECT_EQ(json.at("directory"), out());
  EXPECT_EQ(json.at("bytes"), 8);
}

TEST_F(Download, OfARound) {
  EXPECT_EQ(Run({"download", "job-1", "-o", out()}).code, ExitCode::kOk);
  EXPECT_FALSE(service().downloaded.has_round());
  for (const uint64_t round : {uint64_t{0}, uint64_t{412}}) {
    EXPECT_EQ(Run({"download", "job-1", "-o", out(), "--force", "--round", std::to_string(round)})
                  .code,
              ExitCode::kOk);
    EXPECT_TRUE(service().downloaded.has_round());
    EXPECT_EQ(service().downloaded.round(), round);
  }
  for (const char* bad : {"-1", "1.5", "last", ""}) {
    EXPECT_EQ(Run({"download", "job-1", "-o", out(), "--round", bad}).code,
              ExitCode::kBadArguments)
        << bad;
  }
}

TEST_F(Download, ARoundThatIsNotThere) {
  service().download_error =
      grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "job-1: round 9 is not done: there are 0 to 8");
  ExpectRefused("there are 0 to 8");
}

TEST_F(Download, RefusesToOverwriteUnlessForced) {
  File("out/config.json", "mine");
  const Result refused = Run({"download", "job-1", "-o", out()});
  EXPECT_EQ(refused.code, ExitCode::kBadArguments);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(Contents(out() + "/config.json"), "mine");
  EXPECT_EQ(Run({"download", "job-1", "-o", out(), "--force"}).code, ExitCode::kOk);
  EXPECT_EQ(Contents(out() + "/config.json"), "{}");
  EXPECT_THAT(NamesIn(folder()), ElementsAre("out"));
}

TEST_F(Download, ForceTakesNothingButAnEarlierDownload) {
  File("out/precious/thesis.tex", "x");
  File("out/config.json", "{}");
  EXPECT_EQ(Run({"download", "job-1", "-o", out(), "--force"}).code, ExitCode::kBadArguments);
  EXPECT_EQ(Contents(out() + "/precious/thesis.tex"), "x");
}

TEST_F(Download, EmptyDirectoryIsFineAFileIsNot) {
  std::filesystem::create_directory(out());
  EXPECT_EQ(Run({"download", "job-1", "-o", out()}).code, ExitCode::kOk);
  const std::string file = File("file", "");
  EXPECT_EQ(Run({"download", "job-1", "-o", file}).code, ExitCode::kBadArguments);
  EXPECT_EQ(Run({"download", "job-1", "-o", folder() + "/no/such/parent"}).code,
            ExitCode::kBadArguments);
}

TEST_F(Download, NamesThatLeaveTheDirectory) {
  for (const std::string name :
       {"../evil", "/etc/evil", "a/b", "..", ".hidden", "a\\b", "line\nbreak"}) {
    service().parts = {Part(name, 1, "x")};
    ExpectRefused("plain file name");
  }
}

TEST_F(Download, CutShort) {
  service().parts.pop_back();
  ExpectRefused("ends 3 bytes early");
}

TEST_F(Download, NextFileBeforeTheEndOfTheFirst) {
  service().parts = {Part("config.json", 3, "{}"), Part("model.safetensors", 1, "x")};
  ExpectRefused("config.json ends 1 bytes early");
}

TEST_F(Download, MoreThanAnnounced) {
  service().parts.push_back(Part("", 0, "more"));
  ExpectRefused("more bytes than announced");
}

TEST_F(Download, TheSameFileTwice) {
  service().parts.push_back(service().parts.front());
  ExpectRefused("came twice");
}

TEST_F(Download, DataBeforeAnyName) {
  service().parts = {Part("", 0, "x")};
  ExpectRefused("before the first file");
}

TEST_F(Download, NoFilesAtAll) {
  service().parts.clear();
  ExpectRefused("no files");
}

TEST_F(Download, TheServersErrorLeavesNothing) {
  service().download_error = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "still RUNNING");
  ExpectRefused("still RUNNING");
}

TEST_F(Download, ALostConnectionLeavesNothing) {
  service().download_error = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  EXPECT_EQ(Run({"download", "job-1", "-o", out()}).code, ExitCode::kNoConnection);
  EXPECT_TRUE(NamesIn(folder()).empty());
}

}  // namespace
}  // namespace tally::testing
