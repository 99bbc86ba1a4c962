#include "server/status/metrics.h"

#include <unistd.h>

#include <fstream>

#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace tally {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

prometheus::Counter* AddCounter(prometheus::Registry& registry, const char* name,
                                const char* help) {
  return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

// Powers of two from 4 ms to about 17 minutes.
prometheus::Histogram::BucketBoundaries RoundBuckets() {
  prometheus::Histogram::BucketBoundaries seconds;
  for (double bound = 1.0 / 256; bound <= 1024; bound *= 4) seconds.push_back(bound);
  return seconds;
}

MetricFamily Gauge(const char* name, const char* help) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = MetricType::Gauge;
  return family;
}

void AddValue(MetricFamily& family, double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.gauge.value = value;
}

// Every state has a value, so that a rule on it never lacks a series.
MetricFamily JobsByState(const StatusSnapshot& snapshot) {
  std::map<int, uint64_t> counts;
  for (const v1::JobStatus& job : snapshot.jobs) ++counts[job.state()];
  MetricFamily family = Gauge("tally_jobs", "Jobs by state.");
  for (int state = v1::PENDING; state <= v1::JobState_MAX; ++state) {
    AddValue(family, static_cast<double>(counts[state]),
             {{"state", v1::JobState_Name(static_cast<v1::JobState>(state))}});
  }
  return family;
}

MetricFamily WorkersByState(const StatusSnapshot& snapshot) {
  double free = 0;
  double busy = 0;
  double drained = 0;
  for (const v1::WorkerInfo& worker : snapshot.workers) {
    ++(worker.drained() ? drained : worker.job_id().empty() ? free : busy);
  }
  MetricFamily family =
      Gauge("tally_workers", "Connected workers, free or at a job, and those that are drained.");
  AddValue(family, free, {{"state", "free"}});
  AddValue(family, busy, {{"state", "busy"}});
  AddValue(family, drained, {{"state", "drained"}});
  return family;
}

// Of this process, in bytes; 0 where /proc does not say.
double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  if (!(statm >> pages >> resident)) return 0;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Metrics::Metrics() : registry_(std::make_unique<prometheus::Registry>()) {
  prometheus::Registry& registry = *registry_;
  rounds_closed_ = AddCounter(registry, "tally_rounds_closed_total", "Rounds closed.");
  contribution_bytes_ =
      AddCounter(registry, "tally_contribution_bytes_total",
                 "Payload bytes of the contributions in closed rounds, all workers together.");
  aggregate_bytes_ = AddCounter(registry, "tally_aggregate_bytes_total",
                                "Payload bytes of closed rounds' aggregates, each counted once.");
  jobs_submitted_ = AddCounter(registry, "tally_jobs_submitted_total", "Jobs submitted.");
  refused_ = &prometheus::BuildCounter()
                  .Name("tally_contributions_refused_total")
                  .Help("Contributions that did not count, by reason.")
                  .Register(registry);
  for (const char* reason : {"late", "damaged", "abstained"}) refused_->Add({{"reason", reason}});
  round_duration_ = &prometheus::BuildHistogram()
                         .Name("tally_round_duration_seconds")
                         .Help("Time from a round's opening to its closing.")
                         .Register(registry)
                         .Add({}, RoundBuckets());
}

Metrics::~Metrics() = default;

void Metrics::RoundClosed(absl::Duration duration) {
  rounds_closed_->Increment();
  round_duration_->Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::ContributionBytes(uint64_t bytes) {
  contribution_bytes_->Increment(static_cast<double>(bytes));
}

void Metrics::AggregateBytes(uint64_t bytes) {
  aggregate_bytes_->Increment(static_cast<double>(bytes));
}

void Metrics::Refused(const std::string& reason) { refused_->Add({{"reason", reason}}).Increment(); }

void Metrics::JobSubmitted() { jobs_submitted_->Increment(); }

std::string Metrics::Text(const StatusSnapshot& snapshot) const {
  std::vector<MetricFamily> families = registry_->Collect();
  families.push_back(JobsByState(snapshot));
  families.push_back(WorkersByState(snapshot));
  MetricFamily& memory = families.emplace_back(
      Gauge("tally_resident_memory_bytes", "Resident memory of the server process."));
  AddValue(memory, ResidentBytes());
  MetricFamily& uptime =
      families.emplace_back(Gauge("tally_uptime_seconds", "Time since the server started."));
  AddValue(uptime, absl::ToDoubleSeconds(snapshot.uptime));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tally
