#include "hypervisor/checkpointfile/part_chain.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "hypervisor/checkpointfile/coding.h"

namespace mare::checkpointfile {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20U;

Error not_what_was_kept(const std::string& path, const Identity& found, const Identity& kept) {
  return make_error(Code::FailedPrecondition,
                    path + " is not what was kept of it, it is damaged or another file: " +
                        std::to_string(found.size.count) + " bytes with checksum " +
                        checksum_text(found.checksum) + ", kept were " +
                        std::to_string(kept.size.count) + " with " + checksum_text(kept.checksum),
                    "restart from another checkpoint");
}

Status write_all(int descriptor, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t done = ::write(descriptor, data.data(), data.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return file_error(errno, "can't write", path);
    data.remove_prefix(static_cast<std::size_t>(done));
  }
  return ok_status();
}

/// Of that stream, on the disk, and seen to be good: what it replaces goes.
Status write_full(PartChain& chain, int descriptor, const std::string& path, bool compress) {
  PartWriter writer([&](std::string_view data) { return write_all(descriptor, data, path); },
                    compress, {});
  Status done = chain.replay([&](std::string_view data) { return writer.add(data); });
  if (done) done = writer.finish();
  if (done && fsync(descriptor) != 0) done = file_error(errno, "can't sync", path);
  if (!done) return done;
  auto again = PartChain::open(path);
  if (!again) return again.error();
  return again->replay([](std::string_view) { return ok_status(); });
}

}  // namespace

Result<PartChain> PartChain::open(const std::string& path) {
  PartChain chain;
  auto top = PartFile::open(path);
  if (!top) return top.error();
  chain.parts_.push_back(std::move(*top));
  while (const auto base = chain.parts_.back()->tail().base) {
    const std::string words = path + " is built on " + base->path;
    if (chain.depth() >= kLongestChain) {
      return make_error(Code::FailedPrecondition, words + ", and that on too many others");
    }
    auto next = PartFile::open(base->path);
    if (!next) {
      Error error = next.error().during(words);
      if (error.code == Code::NotFound) error.code = Code::FailedPrecondition;
      return error;
    }
    if ((*next)->tail().identity != base->identity) {
      return make_error(Code::FailedPrecondition, words + ", which is another one by now");
    }
    chain.parts_.push_back(std::move(*next));
  }
  std::reverse(chain.parts_.begin(), chain.parts_.end());
  return chain;
}

Result<PartChain> PartChain::open_on(const std::string& path, PageSource below) {
  PartChain chain;
  auto top = PartFile::open(path);
  if (!top) return top.error();
  chain.parts_.push_back(std::move(*top));
  chain.below_ = std::move(below);
  return chain;
}

std::vector<std::string> PartChain::files() const {
  std::vector<std::string> out;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) out.push_back((*part)->path());
  return out;
}

PageMap PartChain::pages() {
  return pages_of(parts_.size());
}

/// Of the first ones of the chain, each on top of those before.
PageMap PartChain::pages_of(std::size_t parts) {
  PageMap all;
  for (std::size_t i = 0; i < parts; ++i) {
    Tail& tail = parts_[i]->tail();
    for (const auto& [block, number] : tail.gone) all.erase(block, number);
    tail.pages.each([&](const std::string& block, std::uint64_t number, const PageEntry& entry) {
      PageEntry mine = entry;
      mine.part = static_cast<std::uint32_t>(i);
      all.put(block, number, mine);
    });
  }
  return all;
}

struct PartChain::Writing {
  const Take* take = nullptr;
  PieceSink* pieces = nullptr;
  PageMap below;
  std::string piece;
  Checksum sum;
  Bytes size;
  std::uint64_t place = 0;  // the next of the part's own data
  std::optional<std::size_t> block;
  std::uint64_t number = 0;

  /// What was appended since.
  Status tell_bytes(std::size_t from) const {
    return pieces != nullptr ? pieces->bytes(std::string_view(piece).substr(from)) : ok_status();
  }

  Status flush(std::size_t from) {
    if (piece.size() < from || piece.empty()) return ok_status();
    sum.add(piece);
    size = size + Bytes{piece.size()};
    Status done = take != nullptr ? (*take)(piece) : ok_status();
    piece.clear();
    return done;
  }
};

Status PartChain::replay(const Take& take) {
  Writing to;
  to.take = &take;
  return replay(to);
}

Status PartChain::replay(PieceSink& pieces) {
  Writing to;
  to.pieces = &pieces;
  return replay(to);
}

Status PartChain::replay(Writing& to) {
  to.below = pages_of(parts_.size() - 1);
  if (auto run = run_script(to); !run) return run;
  if (auto flushed = to.flush(0); !flushed) return flushed;
  const Identity found{to.size, to.sum.value()};
  if (found == identity()) return ok_status();
  return not_what_was_kept(parts_.back()->path(), found, identity());
}

Status PartChain::run_script(Writing& to) {
  const Tail& tail = parts_.back()->tail();
  Decoder script(tail.script);
  const auto wrong = [&] {
    return make_error(Code::FailedPrecondition, parts_.back()->path() + " can't be read");
  };
  while (!script.at_end()) {
    const auto what = static_cast<Step>(script.number());
    if (what == Step::Jump) {
      to.number += static_cast<std::uint64_t>(script.signed_number());
      continue;
    }
    const std::uint64_t count = script.number();
    if (!script.ok() || what > Step::BelowBare) return wrong();
    if (what == Step::Block) {
      if (count >= tail.blocks.size()) return wrong();
      to.block = count;
      to.number = 0;
      continue;
    }
    if (what != Step::Bytes && !to.block) return wrong();
    if (auto done = run_step(to, what, count); !done) return done;
  }
  return ok_status();
}

Status PartChain::run_step(Writing& to, Step what, std::uint64_t count) {
  while (count > 0) {
    std::uint64_t done = 1;
    if (what == Step::Bytes) {
      done = std::min<std::uint64_t>(count, kPiece);
      const std::size_t from = to.piece.size();
      if (auto got = parts_.back()->read(to.place, done, to.piece); !got) return got;
      to.place += done;
      if (auto told = to.tell_bytes(from); !told) return told;
    } else if (auto got = run_page(to, what); !got) {
      return got;
    }
    count -= done;
    if (auto flushed = to.flush(kPiece); !flushed) return flushed;
  }
  return ok_status();
}

Status PartChain::run_page(Writing& to, Step what) {
  const std::uint64_t number = to.number++;
  const std::string& block = parts_.back()->tail().blocks[*to.block];
  if (what == Step::Zero) {
    to.piece += zero_header(number);
    return to.pieces != nullptr ? to.pieces->zero(block, number) : ok_status();
  }
  const bool headed = what == Step::Here || what == Step::Below;
  const bool below = what == Step::Below || what == Step::BelowBare;
  if (headed) to.piece += page_header(number);
  const std::size_t from = to.piece.size();
  if (auto got = below ? read_from_below(to, block, number) : read_here(to); !got) return got;
  if (to.pieces == nullptr) return ok_status();
  return to.pieces->page(block, number, headed, below, std::string_view(to.piece).substr(from));
}

Status PartChain::read_here(Writing& to) {
  const std::uint64_t place = to.place;
  to.place += kPageBytes;
  return parts_.back()->read(place, kPageBytes, to.piece);
}

Status PartChain::read_from_below(Writing& to, const std::string& block, std::uint64_t number) {
  if (below_) return below_(block, number, to.piece);
  const PageEntry* entry = to.below.find(block, number);
  if (entry == nullptr) {
    return make_error(Code::FailedPrecondition,
                      parts_.back()->path() + " needs page " + std::to_string(number) + " of " +
                          block + ", which those that it is built on do not have");
  }
  return parts_[entry->part]->read(entry->place, kPageBytes, to.piece);
}

Result<Below> read_below(const Base& base) {
  auto chain = PartChain::open(base.path);
  if (!chain) return chain.error();
  if (chain->identity() != base.identity) {
    return not_what_was_kept(base.path, chain->identity(), base.identity);
  }
  return Below{base, chain->pages(), chain->files()};
}

bool still_there(const Below& below) {
  return !below.files.empty() &&
         std::all_of(below.files.begin(), below.files.end(), PartFile::is_whole);
}

Result<Bytes> make_full(const std::string& path, const Identity& kept, bool compress) {
  auto chain = PartChain::open(path);
  if (!chain) return chain.error();
  if (chain->identity() != kept) return not_what_was_kept(path, chain->identity(), kept);
  if (chain->depth() == 0) return chain->file_size();
  // A name of its own: another host may have been asked before, and may still be at it.
  std::string fresh = path + kMergingSuffix + "XXXXXX";
  const int descriptor = mkostemp(fresh.data(), O_CLOEXEC);
  if (descriptor < 0) return file_error(errno, "can't make", fresh);
  Status done = write_full(*chain, descriptor, fresh, compress);
  close(descriptor);
  // It may have been dropped meanwhile; then there must be none again.
  if (done && !chain->in_place()) {
    done = make_error(Code::NotFound, path + " was removed or replaced while it was merged");
  }
  if (done && rename(fresh.c_str(), path.c_str()) != 0) {
    done = file_error(errno, "can't replace", path);
  }
  if (!done) {
    (void)unlink(fresh.c_str());
    return done.error();
  }
  sync_directory_of(path);
  auto again = PartFile::open(path);
  if (!again) return again.error();
  return (*again)->file_size();
}

}  // namespace mare::checkpointfile
