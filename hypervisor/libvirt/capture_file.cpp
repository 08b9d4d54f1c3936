#include "hypervisor/libvirt/capture_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace mare::libvirt {
namespace {

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
constexpr std::string_view kPartial = "LibvirtQemudPart";
constexpr std::size_t kPiece = std::size_t{1} << 20U;

Error file_error(int error, const std::string& what, const std::string& path) {
  const Code code = error == ENOSPC || error == EDQUOT ? Code::ResourceExhausted
                    : error == ENOENT                  ? Code::NotFound
                    : error == EEXIST                  ? Code::AlreadyExists
                                                       : Code::Internal;
  return make_error(code, what + " " + path + ": " + std::generic_category().message(error));
}

/// So that the file's name is on the disk as well.
void sync_directory(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)fsync(descriptor);
  close(descriptor);
}

}  // namespace

std::string save_header(std::string_view domain_xml, bool complete) {
  SaveHeader header;
  const std::string_view magic = complete ? kWhole : kPartial;
  std::memcpy(header.magic.data(), magic.data(), header.magic.size());
  header.data_length = static_cast<std::uint32_t>(domain_xml.size() + 1);
  std::string out(sizeof header, '\0');
  std::memcpy(out.data(), &header, sizeof header);
  out += domain_xml;
  out.push_back('\0');
  return out;
}

Result<std::unique_ptr<CaptureFile>> CaptureFile::create(const std::string& path,
                                                         const std::string& domain_xml) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) {
    return make_error(Code::Internal, "no directory for " + path + ": " + failed.message());
  }
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return file_error(errno, "can't make", path);
  std::unique_ptr<CaptureFile> file(new CaptureFile(path, descriptor));
  file->domain_xml_ = domain_xml;
  const std::string begin = save_header(domain_xml, false);
  if (auto written = file->write(begin); !written) return written.error();
  // The sum is that of the file as it will be.
  file->sum_.add(save_header(domain_xml, true));
  return file;
}

CaptureFile::~CaptureFile() {
  close(descriptor_);
  if (!whole_) (void)remove_file(path_);
}

Error CaptureFile::failure(const std::string& what) const {
  return file_error(errno, what, path_);
}

Status CaptureFile::write(std::string_view data) {
  while (!data.empty()) {
    const ssize_t done = ::write(descriptor_, data.data(), data.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failure("can't write");
    size_ = size_ + Bytes{static_cast<std::uint64_t>(done)};
    data.remove_prefix(static_cast<std::size_t>(done));
  }
  return ok_status();
}

Status CaptureFile::add(std::string_view data) {
  sum_.add(data);
  return write(data);
}

Status CaptureFile::finish() {
  // First all of it, then the word that it is all of it.
  if (fsync(descriptor_) != 0) return failure("can't sync");
  const std::string begin = save_header(domain_xml_, true);
  const ssize_t done = pwrite(descriptor_, begin.data(), kWhole.size(), 0);
  if (done != static_cast<ssize_t>(kWhole.size())) return failure("can't write");
  if (fsync(descriptor_) != 0) return failure("can't sync");
  sync_directory(path_);
  whole_ = true;
  return ok_status();
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

Status remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return file_error(errno, "can't remove", path);
  const std::filesystem::path checkpoint = std::filesystem::path(path).parent_path();
  // Fails while there is anything in them, which is as it should be.
  if (rmdir(checkpoint.c_str()) == 0) (void)rmdir(checkpoint.parent_path().c_str());
  return ok_status();
}

}  // namespace mare::libvirt
