// `tally verify` and `tally download --round`, on jobs that run and on those that have ended.
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "common/layout/chunk_grid.h"
#include "common/update/apply_round.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/format.h"
#include "tests/system/cluster.h"
#include "tests/system/ledger_files.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kForEver[] = "1000000";

std::string JobFolder(Cluster& cluster, const std::string& job_id) {
  return absl::StrCat(cluster.server_state(), "/jobs/", job_id);
}

// The digest of the base with the ledger's rounds applied, up to the last one of a training round.
std::string FoldUpTo(Cluster& cluster, const std::string& job_id, uint64_t training_round) {
  const Layout layout = LayoutOf(cluster, job_id);
  std::vector<float> parameters =
      ReadParameters(layout, JobFolder(cluster, job_id) + "/snapshots/0000000000");
  const auto reader = LedgerReader::Open(LedgerFolder(cluster, job_id), layout.digest());
  if (!reader.ok()) GiveUp(reader.status().ToString());
  for (uint64_t number = 1; number <= reader->last_round(); ++number) {
    const auto round = reader->Read(number);
    if (!round.ok()) GiveUp(round.status().ToString());
    if (round->spec.step() > training_round) break;
    TALLY_EXPECT_OK(ApplyRound(layout, round->spec, round->aggregates,
                               absl::MakeSpan(parameters), {}));
  }
  return DigestToString(ParametersDigest(layout, parameters));
}

// A bit of the byte that lies `from_end` bytes before the file's end.
void Flip(const std::string& path, uint64_t from_end) {
  std::string bytes = Contents(path);
  ASSERT_LE(from_end, bytes.size()) << path;
  bytes[bytes.size() - from_end] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string ModelOf(Cluster& cluster, const std::string& job_id, uint64_t round) {
  return absl::StrCat(JobFolder(cluster, job_id), "/snapshots/", absl::Dec(round, absl::kZeroPad10),
                      "/model.safetensors");
}

bool ExportsAreGone(Cluster& cluster) {
  const std::string exports = cluster.server_state() + "/exports";
  return !std::filesystem::exists(exports) || std::filesystem::is_empty(exports);
}

// The digest of the model that the command fetches.
std::string DownloadRound(Cluster& cluster, const std::string& job_id, uint64_t round) {
  const std::string folder = cluster.File(absl::StrCat("round-", round));
  const Output output = cluster.Tally(
      {"download", job_id, "--round", absl::StrCat(round), "-o", folder, "--force"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  return DigestOfModel(cluster, job_id, folder);
}

TEST(AuditTest, AJobThatRuns) {
  Cluster cluster;
  cluster.StartWorkers(2);
  JobText job = LongJob("{count: 2}", kForEver);
  const std::string job_id = cluster.Submit(job);
  cluster.WaitForRound(job_id, 120);
  const Json verified = cluster.TallyJson({"verify", job_id});
  EXPECT_EQ(verified["difference_count"], 0) << verified;
  EXPECT_EQ(verified["first_round"], 0);
  EXPECT_GE(verified["round"], 120);
  EXPECT_EQ(verified["round"], verified["last_round"]);
  // Two workers report every fifth round; those of the last rounds may still be on their way.
  EXPECT_GE(verified["worker_digests"], 2 * 22);
  EXPECT_GE(verified["snapshot_digests"], 1);
  for (const uint64_t round : {uint64_t{0}, uint64_t{1}, uint64_t{77}, uint64_t{100}}) {
    EXPECT_EQ(DownloadRound(cluster, job_id, round), FoldUpTo(cluster, job_id, round)) << round;
  }
  const Output future = cluster.Tally(
      {"download", job_id, "--round", "999999", "-o", cluster.File("future")});
  EXPECT_EQ(future.exit_code, 1);
  EXPECT_THAT(future.err, ContainsRegex("round 999999 is not done: there are rounds 0 to [0-9]+"));
  EXPECT_EQ(cluster.Status(job_id)["state"], "RUNNING");
  cluster.Tally({"cancel", job_id});
  cluster.WaitForState(job_id, "CANCELLED");
  EXPECT_EQ(cluster.Tally({"verify", job_id, "--from", "90"}).exit_code, 0);
  WaitUntil([&] { return ExportsAreGone(cluster); },
            [] { return "the exported models to be removed"; });
}

TEST(AuditTest, AJobThatHasEnded) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "60"));
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  const Output output = cluster.Tally({"verify", job_id});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(output.out,
            absl::StrCat("rounds 0..60 replayed; 24 worker digests and 2 snapshots compared: all "
                         "equal\nparameters after round 60: ",
                         status["parameters_digest"].get<std::string>(), "\n"));
  // The result says what it is.
  const std::string folder = cluster.Download(job_id);
  EXPECT_EQ(Json::parse(Contents(folder + "/config.json"))["model_type"], "vit");
  EXPECT_EQ(DownloadRound(cluster, job_id, 60), status["parameters_digest"]);
  // And is a base: the next job begins with its bytes.
  JobText next = LongJob("{count: 2}", "5");
  next.name = "next";
  next.model = absl::StrCat("{architecture: vit, base: ", folder, "}");
  const std::string next_id = cluster.Submit(next);
  cluster.WaitForState(next_id, "SUCCEEDED");
  EXPECT_EQ(DownloadRound(cluster, next_id, 0), status["parameters_digest"]);
}

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() {
    cluster_.StartWorkers(2);
    job_id_ = cluster_.Submit(LongJob("{count: 2}", "60"));
    cluster_.WaitForState(job_id_, "SUCCEEDED");
  }
  // What `tally verify` prints, which has to fail by the difference.
  std::string Verify() {
    const Output output = cluster_.Tally({"verify", job_id_});
    EXPECT_EQ(output.exit_code, 1) << output.out << output.err;
    EXPECT_THAT(output.err, HasSubstr("difference"));
    EXPECT_THAT(output.out, Not(HasSubstr(cluster_.server_state())));
    return output.out;
  }
  Layout layout() { return LayoutOf(cluster_, job_id_); }

  Cluster cluster_;
  std::string job_id_;
};

TEST_F(DamageTest, ASnapshotsBlockIsNamed) {
  const LayoutBlock& block = layout().blocks()[1];
  const std::string name = block.name;
  Flip(ModelOf(cluster_, job_id_, 50), (layout().size() - block.first) * sizeof(float));
  EXPECT_THAT(Verify(), ContainsRegex(absl::StrCat("\n50 +", name, " +snapshot +[0-9a-f]+ ")));
}

TEST_F(DamageTest, ALedgersRoundAndBlockAreNamed) {
  const std::vector<RecordAt> records = ListRecords(LedgerFolder(cluster_, job_id_));
  ASSERT_EQ(records.size(), 60u);
  const RecordAt& record = records[32];
  const std::string thirtieth = FoldUpTo(cluster_, job_id_, 30);
  // The last byte of the payloads is the last block's.
  Flip(record.path, std::filesystem::file_size(record.path) - (record.end - kDigestBytes - 1));
  const std::string out = Verify();
  EXPECT_THAT(out, ContainsRegex(absl::StrCat("\n33 +", layout().blocks().back().name, " +ledger ")));
  EXPECT_THAT(out, HasSubstr(absl::StrCat("0000000001.seg: at offset ", record.begin)));
  EXPECT_THAT(out, HasSubstr("the replay ends before round 33 of 60"));
  // A download of a round behind it says so; one before it is whole.
  EXPECT_EQ(DownloadRound(cluster_, job_id_, 30), thirtieth);
  const Output behind = cluster_.Tally(
      {"download", job_id_, "--round", "40", "-o", cluster_.File("behind")});
  EXPECT_EQ(behind.exit_code, 1);
  EXPECT_THAT(behind.err, HasSubstr("tally verify"));
}

TEST_F(DamageTest, AReportThatIsDamaged) {
  Flip(JobFolder(cluster_, job_id_) + "/digests.log", 20);
  EXPECT_THAT(Verify(), ContainsRegex("\n60 +- +digests.log .*its digest is wrong"));
}

TEST_F(DamageTest, AFolderThatIsGone) {
  std::filesystem::remove_all(JobFolder(cluster_, job_id_));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"verify", job_id_},
        {"download", job_id_, "-o", cluster_.File("a")},
        {"download", job_id_, "--round", "3", "-o", cluster_.File("b")}}) {
    const Output output = cluster_.Tally(command);
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_THAT(output.err, HasSubstr("its model is gone"));
    EXPECT_THAT(output.err, Not(HasSubstr(cluster_.server_state())));
  }
}

}  // namespace
}  // namespace tally::testing
