#include "hypervisor/leases/fence_notes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "orchestrator/core/fd.h"

namespace mare::leases {
namespace {

struct Place {
  std::string directory;
  std::string name;
};

Place place_of(const std::string& note) {
  const std::filesystem::path path(note);
  return {path.parent_path().string(), path.filename().string()};
}

/// An NFS client asks the server about a directory when it is opened (close-to-open consistency),
/// and forgets names that it believed absent if the directory has changed; a stat by the whole path
/// could be answered from its memory for up to a minute.
Fd open_directory(const std::string& path) {
  return Fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
}

Error note_error(const std::string& what, const std::string& note) {
  return make_error(Code::Unavailable, what + " '" + note + "': " + std::strerror(errno),
                    "is the checkpoints' storage mounted on this host?");
}

}  // namespace

NoteSeen look_for_note(const std::string& note) {
  const auto place = place_of(note);
  const Fd directory = open_directory(place.directory);
  if (!directory) return NoteSeen::Unknown;
  struct stat seen {};
  if (::fstatat(directory.get(), place.name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0) {
    return NoteSeen::Present;
  }
  return errno == ENOENT ? NoteSeen::Absent : NoteSeen::Unknown;
}

Status make_room_for_notes(const std::string& note) {
  const auto place = place_of(note);
  if (::mkdir(place.directory.c_str(), 0700) == 0 || errno == EEXIST) return ok_status();
  return note_error("no directory for fence note", note);
}

Status put_note(const std::string& note) {
  const auto place = place_of(note);
  std::error_code failed;
  std::filesystem::create_directories(place.directory, failed);  // as a capture does for its file
  const Fd directory = open_directory(place.directory);
  if (!directory) return note_error("can't write fence note", note);
  const Fd file{
      ::openat(directory.get(), place.name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  if (!file || ::fsync(file.get()) != 0 || ::fsync(directory.get()) != 0) {
    return note_error("can't write fence note", note);
  }
  return ok_status();
}

Status remove_note(const std::string& note) {
  if (::unlink(note.c_str()) == 0 || errno == ENOENT) return ok_status();
  return note_error("can't remove fence note", note);
}

}  // namespace mare::leases
