#include "tests/common/rpc/certificates.h"

#include <cstdio>
#include <cstdlib>

#include "common/base/file.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509v3.h"

namespace tally::testing {
namespace {

constexpr long kDay = 24 * 3600;

void WritePem(const std::string& path, X509* certificate) {
  FILE* file = std::fopen(path.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
}

void WritePem(const std::string& path, EVP_PKEY* key) {
  FILE* file = std::fopen(path.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(const std::string& name, EVP_PKEY* key, Validity validity) {
  static long serial = 1;
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), validity.from_days * kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate), validity.until_days * kDay);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

}  // namespace

struct TestCertificates::Authority {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = NewCertificate("test authority", key, {});
};

TestCertificates::TestCertificates() : authority_(new Authority) {
  char folder[] = "/tmp/tally_certificates_XXXXXX";
  folder_ = mkdtemp(folder);
  X509* certificate = authority_->certificate;
  AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  X509_sign(certificate, authority_->key, EVP_sha256());
  WritePem(ca(), certificate);
}

TestCertificates::~TestCertificates() {
  X509_free(authority_->certificate);
  EVP_PKEY_free(authority_->key);
  delete authority_;
  RemoveTree(folder_).IgnoreError();
}

TlsOptions TestCertificates::Issue(const std::string& name, const std::string& san,
                                   Validity validity) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = NewCertificate(name, key, validity);
  AddExtension(certificate, NID_subject_alt_name, san);
  X509_set_issuer_name(certificate, X509_get_subject_name(authority_->certificate));
  X509_sign(certificate, authority_->key, EVP_sha256());
  TlsOptions tls{.ca = ca(),
                 .certificate = folder_ + "/" + name + ".pem",
                 .key = folder_ + "/" + name + ".key"};
  WritePem(tls.certificate, certificate);
  WritePem(tls.key, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return tls;
}

}  // namespace tally::testing
