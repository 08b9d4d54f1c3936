#include "tests/unit/checkpointfile/made_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mare::checkpointfile {
namespace {

const std::string kSection = big_endian(2, 4);

std::string head(char type) {
  std::string out(1, type);
  return out + kSection;
}

std::string foot() {
  return "\x7e" + kSection;
}

std::string named(const std::string& name) {
  return std::string(1, static_cast<char>(name.size())) + name;
}

}  // namespace

std::string big_endian(std::uint64_t value, std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = bytes; i-- > 0; value >>= 8U) out[i] = static_cast<char>(value & 0xffU);
  return out;
}

std::string Maker::noise(std::size_t size) {
  std::string out(size, '\0');
  for (auto& one : out) one = static_cast<char>(random_.next());
  return out;
}

std::string Maker::page() {
  std::string out;
  while (out.size() < kPageBytes) out += "row " + std::to_string(below(100'000)) + ";";
  out.resize(kPageBytes);
  return out;
}

Memory Maker::memory() {
  Memory out;
  for (const std::string name : {"pc.ram", "vga.vram", "/rom@etc/acpi/tables"}) {
    auto& pages = out[name];
    pages.resize(1 + below(400));
    for (auto& one : pages) {
      if (below(3) != 0) one = page();
    }
  }
  return out;
}

void Maker::run(Memory& memory) {
  for (auto& [name, pages] : memory) {
    for (auto& one : pages) {
      if (below(10) == 0) one = below(3) == 0 ? "" : page();
    }
  }
}

void Maker::pages(const Memory& memory, std::string& to) {
  std::vector<std::pair<std::string, std::size_t>> order;
  for (const auto& [name, pages] : memory) {
    for (std::size_t i = 0; i < pages.size(); ++i) order.emplace_back(name, i);
  }
  // What the VM writes to goes first; some are sent twice.
  for (std::uint64_t i = below(30); i > 0; --i) {
    const auto one = order[below(order.size())];
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(below(order.size())), one);
  }
  std::string block;
  for (const auto& [name, number] : order) {
    const std::string& content = memory.at(name)[number];
    const std::uint64_t flags = (content.empty() ? 2U : 8U) | (name == block ? 0x20U : 0U);
    to += big_endian(number * kPageBytes | flags, 8);
    if (name != block) to += named(name);
    block = name;
    to += content.empty() ? std::string(1, '\0') : content;
    if (below(50) == 0) {
      to += big_endian(0x10, 8) + foot();
      if (below(3) == 0) to += "\x02" + big_endian(9, 4) + "another's" + "\x7e" + big_endian(9, 4);
      to += head('\x02');
    }
  }
}

std::string Maker::stream(const Memory& memory) {
  std::string out = "QEVM" + big_endian(3, 4) + "\x07" + big_endian(6, 4) + "pc-i440";
  out += head('\x01') + named("ram") + big_endian(0, 4) + big_endian(4, 4);
  std::uint64_t total = 0;
  for (const auto& [name, pages] : memory) total += pages.size() * kPageBytes;
  out += big_endian(total | 4U, 8);
  for (const auto& [name, pages] : memory) {
    out += named(name) + big_endian(pages.size() * kPageBytes, 8);
  }
  out += big_endian(0x10, 8) + foot() + head('\x02');
  pages(memory, out);
  out += big_endian(0x10, 8) + foot();
  return out + "\x04" + noise(1 + below(5000)) + '\0';
}

Directory::Directory() {
  std::string name = (std::filesystem::temp_directory_path() / "mare-test-XXXXXX").string();
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

Directory::~Directory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

Written write_part(const std::string& path, const std::string& stream,
                   const std::optional<Base>& base, Maker& maker, bool compress) {
  std::optional<Below> below;
  if (base) {
    auto read = read_below(*base);
    EXPECT_TRUE(read) << read.error().text();
    if (read) below = std::move(*read);
  }
  std::string file;
  PartWriter writer(
      [&](std::string_view data) {
        file += data;
        return ok_status();
      },
      compress, std::move(below));
  std::string_view rest = stream;
  while (!rest.empty()) {
    const std::size_t limit = maker.below(4) == 0 ? 20 : 100'000;
    const std::size_t piece = std::min<std::size_t>(rest.size(), 1 + maker.below(limit));
    EXPECT_TRUE(writer.add(rest.substr(0, piece)));
    rest.remove_prefix(piece);
  }
  EXPECT_TRUE(writer.finish());
  EXPECT_EQ(writer.written().count, file.size());
  EXPECT_EQ(writer.identity().size.count, stream.size());
  write_file(path, file);
  return {{path, writer.identity()}, writer.written(), writer.pages_here(), writer.pages_below()};
}

std::string replayed(const std::string& path) {
  auto chain = PartChain::open(path);
  EXPECT_TRUE(chain) << chain.error().text();
  if (!chain) return "";
  std::string out;
  const Status done = chain->replay([&](std::string_view data) {
    out += data;
    return ok_status();
  });
  EXPECT_TRUE(done) << done.error().text();
  return out;
}

}  // namespace mare::checkpointfile
