#pragma once

#include "proto/tally/v1/job.pb.h"

namespace tally::testing {

// Passes every check; tests spoil one field at a time.
inline v1::JobSpec ValidSpec() {
  v1::JobSpec spec;
  spec.set_name("fashion-mnist");
  spec.mutable_model()->set_architecture("mlp");
  spec.mutable_model()->set_config_json(R"({"hidden":[8]})");
  spec.mutable_data()->set_name("fashion-mnist");
  v1::MethodSpec& method = *spec.mutable_method();
  method.set_name("distributed_lion");
  method.set_aggregation("majority");
  method.set_ties("random");
  method.set_beta1(0.9);
  method.set_beta2(0.99);
  method.set_weight_decay(0.1);
  spec.mutable_learning_rate()->set_schedule("cosine");
  spec.mutable_learning_rate()->set_peak(1e-3);
  spec.set_rounds(100);
  spec.set_batch_size(64);
  spec.set_digest_every(10);
  v1::WorkersSpec& workers = *spec.mutable_workers();
  workers.set_count(4);
  workers.set_quorum(3);
  workers.set_minimum(2);
  workers.set_round_deadline_ms(1000);
  workers.set_device("any");
  return spec;
}

}  // namespace tally::testing
