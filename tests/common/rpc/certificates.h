// Certificates made on the spot, for tests of TLS.
#pragma once

#include <string>

#include "common/rpc/credentials.h"

namespace tally::testing {

// Days from now until the certificate starts and stops to be valid.
struct Validity {
  int from_days = -1;
  int until_days = 1;
};

// An authority and what it signs, as files in a folder of its own; removed with the object.
class TestCertificates {
 public:
  TestCertificates();
  ~TestCertificates();
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  // A server or client certificate for `san` ("DNS:localhost", "IP:127.0.0.1") with its key and
  // this authority as ca.
  TlsOptions Issue(const std::string& name, const std::string& san, Validity validity = {});
  std::string ca() const { return folder_ + "/ca.pem"; }
  const std::string& folder() const { return folder_; }

 private:
  struct Authority;
  std::string folder_;
  Authority* authority_;
};

}  // namespace tally::testing
