#include "common/reduction/vote_reduction.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"

namespace tally {
namespace {

struct Votes {
  std::vector<SignView> views;
  bool weighty = false;  // some weight is above zero
};

absl::StatusOr<Votes> ParseVotes(uint32_t count, absl::Span<const Contribution> contributions,
                                 size_t voters_before) {
  if (voters_before + contributions.size() > kMaxVoters) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a vote has at most ", kMaxVoters, " voters, found ",
                     voters_before + contributions.size()));
  }
  Votes votes;
  votes.views.reserve(contributions.size());
  for (const Contribution& contribution : contributions) {
    TALLY_RETURN_IF_ERROR(CheckWeight(contribution.weight));
    votes.weighty |= contribution.weight > 0;
    TALLY_ASSIGN_OR_RETURN(const SignView view, ParseSignPayload(count, contribution.payload));
    votes.views.push_back(view);
  }
  return votes;
}

absl::Status CheckDecidable(size_t voters, bool weighty) {
  if (voters == 0) return absl::FailedPreconditionError("a vote without voters");
  if (!weighty) return absl::FailedPreconditionError("all weights of the vote are zero");
  return absl::OkStatus();
}

class VoteAccumulator : public ChunkAccumulator {
 public:
  VoteAccumulator(const VoteReduction& reduction, const ChunkContext& context)
      : reduction_(reduction), context_(context), count_(LaneCount(context.count)) {}

  absl::Status Add(absl::Span<const Contribution> contributions) override {
    TALLY_ASSIGN_OR_RETURN(const Votes votes,
                           ParseVotes(context_.count, contributions, count_.voters()));
    count_.Add(votes.views);
    weighty_ |= votes.weighty;
    return absl::OkStatus();
  }

  absl::StatusOr<Bytes> Finish() override {
    TALLY_RETURN_IF_ERROR(CheckDecidable(count_.voters(), weighty_));
    Bytes aggregate;
    const auto writer = reduction_.NewWriter(context_, count_.voters(), &aggregate);
    writer->Append(count_);
    writer->Finish();
    return aggregate;
  }

  size_t memory() const override { return sizeof(*this) + count_.memory(); }

 private:
  const VoteReduction& reduction_;
  const ChunkContext context_;
  VoteCount count_;
  bool weighty_ = false;
};

void SliceAll(const std::vector<SignView>& views, size_t first, size_t size,
              std::vector<SignView>* slices) {
  slices->clear();
  for (const SignView& view : views) slices->push_back(view.Slice(first, size));
}

}  // namespace

void VoteWriter::AppendVotes(absl::Span<const SignView> views) {
  count_.Reset(views[0].lanes);
  count_.Add(views);
  Append(count_);
}

std::unique_ptr<ChunkAccumulator> VoteReduction::NewAccumulator(const ChunkContext& context) const {
  return std::make_unique<VoteAccumulator>(*this, context);
}

absl::Status VoteReduction::ReduceInto(const ChunkContext& context,
                                       absl::Span<const Contribution> contributions,
                                       Bytes* aggregate) const {
  TALLY_ASSIGN_OR_RETURN(const Votes votes, ParseVotes(context.count, contributions, 0));
  TALLY_RETURN_IF_ERROR(CheckDecidable(votes.views.size(), votes.weighty));
  const std::unique_ptr<VoteWriter> writer = NewWriter(context, votes.views.size(), aggregate);
  const size_t lanes = LaneCount(context.count);
  std::vector<SignView> slices;
  for (size_t first = 0; first < lanes; first += kBlockWords) {
    const size_t size = std::min(kBlockWords, lanes - first);
    SliceAll(votes.views, first, size, &slices);
    writer->AppendVotes(slices);
  }
  writer->Finish();
  return absl::OkStatus();
}

}  // namespace tally
