#include "common/rpc/pem.h"

#include <ctime>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"

namespace tally {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Deleter<BIO_free>>;
using X509Ptr = std::unique_ptr<X509, Deleter<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;

BioPtr MemoryBio(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Never asks on the terminal, which is what OpenSSL does by default.
int NoPassword(char*, int, int, void*) { return -1; }

X509Ptr ParseCertificate(const std::string& text) {
  const BioPtr bio = MemoryBio(text);
  X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  return certificate;
}

KeyPtr ParseKey(const std::string& text) {
  const BioPtr bio = MemoryBio(text);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  return key;
}

std::string Text(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unreadable date";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromTM(parts, absl::UTCTimeZone()),
                          absl::UTCTimeZone());
}

absl::Status CheckValidity(const std::string& path, const X509& certificate, absl::Time now) {
  std::time_t seconds = absl::ToTimeT(now);
  const ASN1_TIME* from = X509_get0_notBefore(&certificate);
  const ASN1_TIME* until = X509_get0_notAfter(&certificate);
  if (X509_cmp_time(until, &seconds) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the certificate has expired, on ", Text(until)));
  }
  if (X509_cmp_time(from, &seconds) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the certificate is not valid before ", Text(from)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadCertificate(const std::string& path, absl::Time now) {
  TALLY_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  const X509Ptr certificate = ParseCertificate(text);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a certificate in PEM form (BEGIN CERTIFICATE), found none"));
  }
  TALLY_RETURN_IF_ERROR(CheckValidity(path, *certificate, now));
  return text;
}

absl::StatusOr<std::string> ReadPrivateKey(const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (ParseKey(text) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a private key in PEM form without a password, found none"));
  }
  return text;
}

absl::Status CheckKeyMatches(const std::string& certificate_path, const std::string& certificate,
                             const std::string& key_path, const std::string& key) {
  const X509Ptr parsed = ParseCertificate(certificate);
  const KeyPtr parsed_key = ParseKey(key);
  const bool match = parsed != nullptr && parsed_key != nullptr &&
                     X509_check_private_key(parsed.get(), parsed_key.get()) == 1;
  ERR_clear_error();
  if (match) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the key ", key_path, " does not belong to the certificate ", certificate_path));
}

}  // namespace tally
