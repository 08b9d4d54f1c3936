#include "hypervisor/agent/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

namespace mare::agent {
namespace {

constexpr const char* kRemedy = "docs/agent.md says how certificates are made";

struct X509Free {
  void operator()(X509* p) const noexcept { X509_free(p); }
};
struct KeyFree {
  void operator()(EVP_PKEY* p) const noexcept { EVP_PKEY_free(p); }
};
struct BioFree {
  void operator()(BIO* p) const noexcept { BIO_free(p); }
};
struct StoreFree {
  void operator()(X509_STORE* p) const noexcept { X509_STORE_free(p); }
};
struct ContextFree {
  void operator()(X509_STORE_CTX* p) const noexcept { X509_STORE_CTX_free(p); }
};
using Certificate = std::unique_ptr<X509, X509Free>;
using Key = std::unique_ptr<EVP_PKEY, KeyFree>;
using Bio = std::unique_ptr<BIO, BioFree>;
using Store = std::unique_ptr<X509_STORE, StoreFree>;
using Context = std::unique_ptr<X509_STORE_CTX, ContextFree>;

Error trouble(const char* what, const std::string& path, const std::string& why,
              std::string remedy = kRemedy) {
  ERR_clear_error();  // the queue is the thread's; gRPC must not find our leavings
  return make_error(Code::InvalidArgument, std::string(what) + " '" + path + "' " + why,
                    std::move(remedy));
}

Result<std::string> read_file(const char* what, const std::string& path) {
  if (path.empty()) return trouble(what, path, "was not given");
  std::ifstream in(path, std::ios::binary);
  if (!in) return trouble(what, path, std::string("can't be read: ") + std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad() || text.str().empty()) return trouble(what, path, "is empty or can't be read");
  return text.str();
}

/// Every certificate of a PEM text; none when there is no valid one.
std::vector<Certificate> certificates_of(const std::string& pem) {
  std::vector<Certificate> found;
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    found.emplace_back(one);
  }
  ERR_clear_error();  // the last read always fails: it met the end
  return found;
}

/// An encrypted key is not asked for its password on a daemon's terminal: it is an error.
int no_password(char*, int, int, void*) {
  return -1;
}

Key key_of(const std::string& pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
}

std::string time_text(const ASN1_TIME* time) {
  const Bio bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

Status check_dates(const char* what, const std::string& path, const X509& certificate,
                   WallTime now) {
  time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const ASN1_TIME* from = X509_get0_notBefore(&certificate);
  const ASN1_TIME* until = X509_get0_notAfter(&certificate);
  if (X509_cmp_time(until, &seconds) < 0) {
    return trouble(what, path, "expired at " + time_text(until), "make a new one");
  }
  if (X509_cmp_time(from, &seconds) > 0) {
    return trouble(what, path, "is valid only from " + time_text(from),
                   "is this machine's clock right?");
  }
  return ok_status();
}

Status check_signature(const TlsPaths& paths, const std::vector<Certificate>& roots,
                       const std::vector<Certificate>& chain, WallTime now) {
  const Store store(X509_STORE_new());
  for (const auto& root : roots) X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> others(
      sk_X509_new_null(), [](STACK_OF(X509) * stack) { sk_X509_free(stack); });
  for (std::size_t i = 1; i < chain.size(); ++i) sk_X509_push(others.get(), chain[i].get());
  const Context context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), others.get());
  X509_STORE_CTX_set_time(context.get(), 0,
                          std::chrono::duration_cast<std::chrono::seconds>(now).count());
  if (X509_verify_cert(context.get()) == 1) return ok_status();
  const std::string why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  return trouble("the certificate", paths.certificate,
                 "is not one of the CA '" + paths.ca + "': " + why,
                 "use certificates of one CA on all sides");
}

bool carries(X509& certificate, const std::string& name) {
  return X509_check_host(&certificate, name.data(), name.size(), 0, nullptr) == 1 ||
         X509_check_ip_asc(&certificate, name.c_str(), 0) == 1;
}

}  // namespace

Result<TlsTexts> load_tls(const TlsPaths& paths, const std::string& name, WallTime now) {
  auto ca = read_file("the CA certificate", paths.ca);
  if (!ca) return ca.error();
  auto certificate = read_file("the certificate", paths.certificate);
  if (!certificate) return certificate.error();
  auto key = read_file("the key", paths.key);
  if (!key) return key.error();

  const auto roots = certificates_of(*ca);
  if (roots.empty()) return trouble("the CA certificate", paths.ca, "holds no PEM certificate");
  const auto chain = certificates_of(*certificate);
  if (chain.empty()) {
    return trouble("the certificate", paths.certificate, "holds no PEM certificate");
  }
  const Key parsed = key_of(*key);
  if (!parsed) {
    return trouble("the key", paths.key, "holds no PEM private key, or one with a password");
  }
  X509& own = *chain.front();
  if (X509_check_private_key(&own, parsed.get()) != 1) {
    return trouble("the key", paths.key,
                   "does not belong to the certificate '" + paths.certificate + "'");
  }
  for (const auto& root : roots) {
    if (auto dates = check_dates("the CA certificate", paths.ca, *root, now); !dates) {
      return dates.error();
    }
  }
  if (auto dates = check_dates("the certificate", paths.certificate, own, now); !dates) {
    return dates.error();
  }
  if (auto signed_by = check_signature(paths, roots, chain, now); !signed_by) {
    return signed_by.error();
  }
  if (!name.empty() && !carries(own, name)) {
    return trouble("the certificate", paths.certificate, "does not carry the name '" + name + "'",
                   "make one with subjectAltName=DNS:" + name + ", or correct the name");
  }
  return TlsTexts{*ca, *certificate, *key};
}

}  // namespace mare::agent
