#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/json.h"
#include "client/progress.h"
#include "client/text.h"
#include "common/base/status.h"

namespace tally {
namespace {

struct Options {
  std::string job_id;
  std::optional<uint64_t> from_round;
};

// All messages as one: the last one's counts, everybody's differences.
void Merge(const v1::VerifyProgress& next, v1::VerifyProgress& all) {
  v1::VerifyProgress merged = next;
  *merged.mutable_differences() = all.differences();
  merged.mutable_differences()->MergeFrom(next.differences());
  all = std::move(merged);
}

// A line that is written over, on a terminal; otherwise nothing. It is no data.
class Bar {
 public:
  explicit Bar(Session& session)
      : console_(session.console()), on_(console_.terminal && !session.options().json) {}
  ~Bar() { Clear(); }
  void Show(const v1::VerifyProgress& progress) {
    if (!on_) return;
    console_.out << "\r" << VerifyLine(progress, console_.width - 1) << "\x1b[K" << std::flush;
    open_ = true;
  }
  void Clear() {
    if (open_) console_.out << "\r\x1b[K" << std::flush;
    open_ = false;
  }

 private:
  Console& console_;
  const bool on_;
  bool open_ = false;
};

absl::StatusOr<v1::VerifyProgress> Follow(Session& session, const Options& options) {
  grpc::ClientContext context;
  session.Prepare(context);
  const Interrupt::Guard guard(session.interrupt(), context);
  v1::VerifyJobRequest request;
  request.set_job_id(options.job_id);
  if (options.from_round.has_value()) request.set_from_round(*options.from_round);
  const auto reader = session.stub().VerifyJob(&context, request);
  v1::VerifyProgress next, all;
  Bar bar(session);
  while (reader->Read(&next)) {
    Merge(next, all);
    bar.Show(all);
  }
  TALLY_RETURN_IF_ERROR(session.ServerError(reader->Finish()));
  if (!all.done()) return absl::AbortedError("the server ended the verification before its end");
  return all;
}

std::vector<std::string> Row(const v1::Difference& difference) {
  return {absl::StrCat(difference.round()),
          difference.block().empty() ? "-" : difference.block(),
          difference.source(),
          difference.expected(),
          difference.found(),
          difference.problem()};
}

void PrintDifferences(Session& session, const v1::VerifyProgress& result) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Difference& difference : result.differences()) rows.push_back(Row(difference));
  session.out() << Table({"ROUND", "BLOCK", "SOURCE", "EXPECTED", "FOUND", "PROBLEM"}, rows);
  const uint64_t shown = static_cast<uint64_t>(result.differences_size());
  if (shown < result.difference_count()) {
    session.out() << "and " << result.difference_count() - shown << " more\n";
  }
}

absl::Status Verify(Session& session, const Options& options) {
  TALLY_ASSIGN_OR_RETURN(const v1::VerifyProgress result, Follow(session, options));
  if (session.options().json) {
    session.out() << JsonLine(ToJson(result)) << std::endl;
  } else {
    session.out() << VerifySummary(result) << "\n";
    if (result.difference_count() > 0) PrintDifferences(session, result);
    session.out() << std::flush;
  }
  if (result.difference_count() == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(options.job_id, ": ", result.difference_count(),
                                         result.difference_count() == 1 ? " difference"
                                                                        : " differences"));
}

}  // namespace

void AddVerify(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Session& session = line.session;
  CLI::App* command = AddCommand(
      line, "verify", "Replay a job's ledger and compare it with every digest there is",
      absl::InfiniteDuration(), [&session, options] { return Verify(session, *options); });
  AddJobArgument(*command, options->job_id);
  command->add_option("--from", options->from_round,
                      "Begin at the newest snapshot up to this round of the ledger (default: at the "
                      "oldest one)");
}

}  // namespace tally
