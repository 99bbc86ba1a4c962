#include "worker/daemon/evaluate.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/hf_directory.h"
#include "worker/data/data_source.h"
#include "worker/evaluation.h"
#include "worker/flat_parameters.h"

namespace tally {

absl::StatusOr<Score> EvaluateModel(const WorkerConfig& config, const EvaluateOptions& options) {
  const auto set = config.data.find(options.data_set);
  if (set == config.data.end()) {
    return absl::NotFoundError(
        absl::StrCat("data set ", options.data_set, ": not in the configuration's data section"));
  }
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> checkpoint,
                         CheckpointReader::Open(options.model));
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                         MakeModel(options.architecture, checkpoint->config_json()));
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<DataSource> data,
                         OpenDataSource({set->second.format, set->second.path}));
  TALLY_RETURN_IF_ERROR(model->CheckFits(data->info()));
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<FlatParameters> flat, FlatParameters::Create(*model));
  TALLY_RETURN_IF_ERROR(WithContext(flat->Load(*checkpoint), options.model));
  if (config.threads > 0) SetComputeThreads(config.threads);
  TALLY_ASSIGN_OR_RETURN(const Score score, EvaluateShare(*model, *data, 0, 1));
  if (score.count == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set ", options.data_set, ": no test split"));
  }
  return score;
}

}  // namespace tally
