#include "hypervisor/libvirt/capture_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "orchestrator/core/checksum.h"

namespace mare::libvirt {
namespace {

using checkpointfile::file_error;

/// libvirt's, as of 2009 and since (version 2); numbers in the host's own order.
struct SaveHeader {
  std::array<char, 16> magic{};
  std::uint32_t version = 2;
  std::uint32_t data_length = 0;  // of what follows, before QEMU's stream
  std::uint32_t was_running = 1;
  std::uint32_t format = 0;         // raw
  std::uint32_t cookie_offset = 0;  // none
  std::array<std::uint32_t, 14> unused{};
};
static_assert(sizeof(SaveHeader) == 92);
constexpr std::string_view kWhole = "LibvirtQemudSave";
constexpr std::size_t kPiece = std::size_t{1} << 20U;

Status write_all(int descriptor, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t done = ::write(descriptor, data.data(), data.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return file_error(errno, "can't write", path);
    data.remove_prefix(static_cast<std::size_t>(done));
  }
  return ok_status();
}

Status unpack_to(int descriptor, const std::string& path, const CheckpointPart& part) {
  auto chain = checkpointfile::PartChain::open(part.path);
  if (!chain) return chain.error();
  const checkpointfile::Identity kept{part.size, part.checksum};
  if (chain->identity() != kept) {
    return make_error(Code::FailedPrecondition,
                      part.path + " is not what was kept of it, it is another part",
                      "restart from another checkpoint");
  }
  return chain->replay([&](std::string_view data) { return write_all(descriptor, data, path); });
}

}  // namespace

std::string save_header(std::string_view domain_xml) {
  SaveHeader header;
  std::memcpy(header.magic.data(), kWhole.data(), header.magic.size());
  header.data_length = static_cast<std::uint32_t>(domain_xml.size() + 1);
  std::string out(sizeof header, '\0');
  std::memcpy(out.data(), &header, sizeof header);
  out += domain_xml;
  out.push_back('\0');
  return out;
}

Result<SavedDomain> read_save_header(const std::string& path) {
  constexpr std::uint32_t kLongest = 1U << 20U;
  std::ifstream in(path, std::ios::binary);
  SaveHeader header;
  std::string raw(sizeof header, '\0');
  in.read(raw.data(), static_cast<std::streamsize>(raw.size()));
  if (in) std::memcpy(&header, raw.data(), sizeof header);
  const bool known = in && std::memcmp(header.magic.data(), kWhole.data(), kWhole.size()) == 0 &&
                     header.data_length > 0 && header.data_length <= kLongest;
  std::string xml(known ? header.data_length : 0, '\0');
  in.read(xml.data(), static_cast<std::streamsize>(xml.size()));
  if (!known || !in) {
    return make_error(Code::FailedPrecondition, path + " does not begin as a saved VM");
  }
  xml.resize(std::strlen(xml.c_str()));
  return SavedDomain{std::move(xml), sizeof header + header.data_length};
}

CaptureFile::CaptureFile(std::string path, int descriptor, Form form)
    : path_(std::move(path)),
      descriptor_(descriptor),
      writer_([this](std::string_view data) { return write_all(descriptor_, data, path_); },
              form.compress, std::move(form.below)) {}

Result<std::unique_ptr<CaptureFile>> CaptureFile::create(const std::string& path,
                                                         const std::string& domain_xml, Form form) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) {
    return make_error(Code::Internal, "no directory for " + path + ": " + failed.message());
  }
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return file_error(errno, "can't make", path);
  std::unique_ptr<CaptureFile> file(new CaptureFile(path, descriptor, std::move(form)));
  if (auto begun = file->add(save_header(domain_xml)); !begun) return begun.error();
  return file;
}

CaptureFile::~CaptureFile() {
  close(descriptor_);
  if (!whole_) (void)checkpointfile::remove_part(path_);
}

Status CaptureFile::finish() {
  if (auto done = writer_.finish(); !done) return done;
  if (fsync(descriptor_) != 0) return file_error(errno, "can't sync", path_);
  checkpointfile::sync_directory_of(path_);
  whole_ = true;
  return ok_status();
}

Result<std::unique_ptr<UnpackedPart>> UnpackedPart::make(const std::string& directory,
                                                         const CheckpointPart& part) {
  using Made = std::unique_ptr<UnpackedPart>;
  if (!checkpointfile::is_part(part.path)) {
    if (auto good = check_file(part.path, part.size, part.checksum); !good) return good.error();
    return Made(new UnpackedPart(part.path, false));
  }
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  std::string path = directory + "/" + part.vm.value + "-XXXXXX";
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return file_error(errno, "can't make", path);
  Made made(new UnpackedPart(path, true));
  const Status done = unpack_to(descriptor, path, part);
  close(descriptor);
  if (!done) return done.error();
  return made;
}

UnpackedPart::~UnpackedPart() {
  if (ours_) (void)unlink(path_.c_str());
}

void clear_unpacked(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

Result<Bytes> make_part_full(const CheckpointPart& part, bool compress) {
  if (!checkpointfile::is_part(part.path)) {
    // What an older version wrote is whole; what is not there can't be opened.
    auto good = check_file(part.path, part.size, part.checksum);
    return good ? Result<Bytes>(part.size) : good.error();
  }
  return checkpointfile::make_full(part.path, {part.size, part.checksum}, compress);
}

Status check_file(const std::string& path, Bytes size, std::uint64_t checksum) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return file_error(errno, "can't open", path);
  Checksum sum;
  Bytes found;
  std::string piece(kPiece, '\0');
  ssize_t got = 0;
  int error = 0;
  while ((got = read(descriptor, piece.data(), piece.size())) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      error = errno;
      break;
    }
    sum.add(piece.data(), static_cast<std::size_t>(got));
    found = found + Bytes{static_cast<std::uint64_t>(got)};
  }
  close(descriptor);
  if (error != 0) return file_error(error, "can't read", path);
  if (found == size && sum.value() == checksum) return ok_status();
  return make_error(Code::FailedPrecondition,
                    path + " is not what was kept of it, it is damaged or another file: " +
                        std::to_string(found.count) + " bytes with checksum " +
                        checksum_text(sum.value()) + ", kept were " + std::to_string(size.count) +
                        " with " + checksum_text(checksum),
                    "restart from another checkpoint");
}

}  // namespace mare::libvirt
