#include "common/rpc/credentials.h"

#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "tests/common/rpc/certificates.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::tally::testing::TestCertificates;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Credentials : public ::testing::Test {
 protected:
  TestCertificates certificates_;
};

TEST_F(Credentials, NoneWithoutTls) {
  TALLY_EXPECT_OK(MakeChannelCredentials({}));
  TALLY_EXPECT_OK(MakeServerCredentials({}));
}

TEST_F(Credentials, FromWholeFiles) {
  const TlsOptions tls = certificates_.Issue("server", "DNS:localhost");
  TALLY_EXPECT_OK(MakeChannelCredentials(tls));
  TALLY_EXPECT_OK(MakeServerCredentials(tls));
  TALLY_EXPECT_OK(MakeChannelCredentials({.ca = certificates_.ca()}));
}

TEST_F(Credentials, KeyOfAnotherCertificate) {
  TlsOptions tls = certificates_.Issue("server", "DNS:localhost");
  tls.key = certificates_.Issue("other", "DNS:localhost").key;
  EXPECT_THAT(MakeServerCredentials(tls),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("other.key does not belong"), HasSubstr("server.pem"))));
}

TEST_F(Credentials, ExpiredAndNotYetValid) {
  EXPECT_THAT(MakeServerCredentials(certificates_.Issue("old", "DNS:localhost", {-10, -2})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("old.pem: the certificate has expired")));
  EXPECT_THAT(MakeServerCredentials(certificates_.Issue("new", "DNS:localhost", {2, 10})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("new.pem: the certificate is not valid before")));
}

TEST_F(Credentials, FilesThatAreNot) {
  TlsOptions tls = certificates_.Issue("server", "DNS:localhost");
  EXPECT_THAT(MakeChannelCredentials({.ca = certificates_.folder() + "/absent.pem"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent.pem")));
  const std::string text = certificates_.folder() + "/text";
  TALLY_ASSERT_OK(WriteFileAtomically(text, "no PEM"));
  EXPECT_THAT(MakeChannelCredentials({.ca = text}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a certificate")));
  tls.key = text;
  EXPECT_THAT(MakeServerCredentials(tls),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a private key")));
}

TEST_F(Credentials, HalfAPair) {
  TlsOptions tls = certificates_.Issue("server", "DNS:localhost");
  tls.key.clear();
  EXPECT_THAT(MakeServerCredentials(tls),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only the certificate")));
  EXPECT_THAT(MakeChannelCredentials(tls), StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(MakeServerCredentials({.ca = certificates_.ca()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only a ca")));
}

}  // namespace
}  // namespace tally
