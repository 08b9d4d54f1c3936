// Streams as QEMU makes them (savevm.c, ram.c), of a memory that a test writes to; and files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hypervisor/checkpointfile/part_chain.h"
#include "orchestrator/core/rng.h"

namespace mare::checkpointfile {

/// The memory of a VM: blocks of pages, "" for one that is all zeros.
using Memory = std::map<std::string, std::vector<std::string>>;

class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t limit) { return random_.below(limit); }
  std::string noise(std::size_t size);
  /// A page of text, so that it can be packed.
  std::string page();
  Memory memory();
  /// Some pages are written to, some become zeros.
  void run(Memory& memory);
  /// The stream of a snapshot: in whatever order pages were asked for, some twice.
  std::string stream(const Memory& memory);

 private:
  void pages(const Memory& memory, std::string& to);
  SeededRng random_;
};

std::string big_endian(std::uint64_t value, std::size_t bytes);

/// A directory of a test's own, gone with it.
class Directory {
 public:
  Directory();
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& content);

struct Written {
  Base base;  // for the next one
  Bytes file;
  std::uint64_t here = 0;
  std::uint64_t below = 0;
};
/// Writes a stream as a part, in pieces of all sizes.
Written write_part(const std::string& path, const std::string& stream,
                   const std::optional<Base>& base, Maker& maker, bool compress = true);
/// "" and a failure of the test if it can't be read.
std::string replayed(const std::string& path);

}  // namespace mare::checkpointfile
