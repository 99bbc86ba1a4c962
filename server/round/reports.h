// What workers report about a round after it closed (evaluations, digests): who is expected to,
// and who has. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tally {

template <typename T>
class ReportTable {
 public:
  struct Row {
    std::set<uint32_t> expected;  // worker indices that have not reported yet
    std::map<uint32_t, T> reports;
    bool complete() const { return expected.empty(); }
  };

  void Expect(uint64_t round, uint32_t worker) { rows_[round].expected.insert(worker); }
  // False: not expected, or a repetition; nothing changes.
  bool Report(uint64_t round, uint32_t worker, T report) {
    const auto row = rows_.find(round);
    if (row == rows_.end() || row->second.expected.erase(worker) == 0) return false;
    row->second.reports.emplace(worker, std::move(report));
    return true;
  }
  // The worker is gone and reports nothing more.
  void Forget(uint32_t worker) {
    for (auto& [round, row] : rows_) row.expected.erase(worker);
  }
  void ForgetAll() {
    for (auto& [round, row] : rows_) row.expected.clear();
  }
  bool AllComplete() const {
    for (const auto& [round, row] : rows_) {
      if (!row.complete()) return false;
    }
    return true;
  }
  std::map<uint64_t, Row>& rows() { return rows_; }

 private:
  std::map<uint64_t, Row> rows_;
};

}  // namespace tally
