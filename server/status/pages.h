// What the endpoint answers to a path, without any socket.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/status/metrics.h"
#include "server/status/status_source.h"

namespace tally {

struct Page {
  int status = 200;
  std::string type;  // Content-Type
  std::string body;
};

// `path` as decoded, without the query. 404 for what is not there, 405 unless GET or HEAD.
Page AnswerPage(absl::string_view method, absl::string_view path, StatusSource& source,
                const Metrics& metrics);

// The page at /, whole: no other file is needed to show it.
absl::string_view DashboardHtml();

}  // namespace tally
