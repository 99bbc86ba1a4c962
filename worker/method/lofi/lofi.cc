#include "worker/method/lofi/lofi.h"

#include "common/base/status.h"
#include "common/update/round_context.h"
#include "worker/method/local_method.h"

namespace tally {
namespace {

class Lofi : public LocalMethod {
 public:
  Lofi(const v1::MethodSpec& spec, const Layout& layout)
      : LocalMethod(OptimiserOptionsOf(spec), layout.trained_size()) {}

  absl::StatusOr<Bytes> Encode(const v1::RoundSpec& round, const Chunk& chunk,
                               absl::Span<const float> delta, EncodeStats*) override {
    TALLY_ASSIGN_OR_RETURN(const ChunkContext context, ContributionContext(round, chunk));
    TALLY_ASSIGN_OR_RETURN(const Reduction* reduction, FindReduction(round.reduction()));
    Bytes payload = reduction->Pack(context, delta, 0);
    TALLY_RETURN_IF_ERROR(reduction->CheckContribution(context, payload));
    return payload;
  }
};

}  // namespace

std::unique_ptr<Method> MakeLofi(const MethodOptions& options, const Layout& layout) {
  return std::make_unique<Lofi>(options.spec, layout);
}

}  // namespace tally
