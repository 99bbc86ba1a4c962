#include <memory>
#include <optional>
#include <string>

#include "client/json.h"
#include "client/progress.h"
#include "client/watcher.h"

namespace tally {
namespace {

class JsonView : public StatusView {
 public:
  explicit JsonView(Console& console) : console_(console) {}
  void Show(const v1::JobStatus& job) override {
    console_.out << JsonLine(ToJson(job)) << std::endl;
  }
  void Notice(absl::string_view message) override { console_.err << message << std::endl; }

 private:
  Console& console_;
};

class LinesView : public StatusView {
 public:
  explicit LinesView(Console& console) : console_(console) {}
  void Show(const v1::JobStatus& job) override {
    const auto line = NotableLine(last_.has_value() ? &*last_ : nullptr, job);
    if (!line.has_value()) return;
    console_.out << *line << std::endl;
    last_ = job;
  }
  void Notice(absl::string_view message) override { console_.err << message << std::endl; }

 private:
  Console& console_;
  std::optional<v1::JobStatus> last_;  // that was shown
};

class BarView : public StatusView {
 public:
  explicit BarView(Console& console) : console_(console) {}
  ~BarView() override { EndLine(); }
  void Show(const v1::JobStatus& job) override {
    // Return, the line, and erase what an older, longer one left.
    console_.out << "\r" << ProgressLine(job, console_.width - 1) << "\x1b[K" << std::flush;
    open_ = true;
  }
  void Notice(absl::string_view message) override {
    EndLine();
    console_.err << message << std::endl;
  }

 private:
  void EndLine() {
    if (open_) console_.out << std::endl;
    open_ = false;
  }
  Console& console_;
  bool open_ = false;  // the cursor stands behind a progress line
};

}  // namespace

std::unique_ptr<StatusView> MakeStatusView(Session& session) {
  Console& console = session.console();
  if (session.options().json) return std::make_unique<JsonView>(console);
  if (console.terminal) return std::make_unique<BarView>(console);
  return std::make_unique<LinesView>(console);
}

}  // namespace tally
