#include "hypervisor/checkpointfile/part_writer.h"

#include <algorithm>

#include "hypervisor/checkpointfile/coding.h"

namespace mare::checkpointfile {

PartWriter::PartWriter(Write write, bool compress, std::optional<Below> below)
    : write_(std::move(write)), compress_(compress), below_(std::move(below)), stream_(*this) {
  chunk_.reserve(kChunkBytes);
  // Marks of the part that it was written for would hide pages that this stream does not have.
  if (below_) below_->pages.unmark();
}

Status PartWriter::write(std::string_view data) {
  if (auto done = write_(data); !done) return done;
  written_ = written_ + Bytes{data.size()};
  return ok_status();
}

Status PartWriter::add(std::string_view stream) {
  if (written_.count == 0) {
    if (auto done = write(kHead); !done) return done;
  }
  sum_.add(stream);
  size_ = size_ + Bytes{stream.size()};
  return stream_.add(stream);
}

Below PartWriter::for_next(const std::string& path) {
  Below next{{path, identity()}, {}, {path}};
  if (below_) {
    next.files.insert(next.files.end(), below_->files.begin(), below_->files.end());
    next.pages = std::move(below_->pages);
    below_.reset();
  }
  for (const auto& [block, number] : tail_.gone) next.pages.erase(block, number);
  tail_.pages.each([&](const std::string& block, std::uint64_t number, const PageEntry& entry) {
    next.pages.put(block, number, entry);
  });
  return next;
}

// --- The script

void PartWriter::flush_step() {
  if (!last_) return;
  tail_.script.push_back(static_cast<char>(*last_));
  put_number(tail_.script, last_count_);
  last_.reset();
  last_count_ = 0;
}

/// Steps of one kind in a row are one.
void PartWriter::step(Step what, std::uint64_t count) {
  if (last_ != what) flush_step();
  last_ = what;
  last_count_ += count;
}

void PartWriter::move_to(PageId which) {
  if (!cursor_set_ || cursor_.block != which.block) {
    flush_step();
    tail_.script.push_back(static_cast<char>(Step::Block));
    put_number(tail_.script, which.block);
    cursor_ = {which.block, 0};
    cursor_set_ = true;
  }
  if (cursor_.number == which.number) return;
  flush_step();
  tail_.script.push_back(static_cast<char>(Step::Jump));
  put_signed(tail_.script, static_cast<std::int64_t>(which.number - cursor_.number));
  cursor_.number = which.number;
}

void PartWriter::at(PageId which, Step what) {
  move_to(which);
  step(what, 1);
  ++cursor_.number;
}

// --- What the stream is made of

Status PartWriter::bytes(std::string_view data) {
  step(Step::Bytes, data.size());
  return keep(data);
}

Status PartWriter::page(PageId which, bool headed, std::string_view content) {
  const std::string& block = stream_.blocks()[which.block];
  PageEntry entry;
  entry.hash = hash_page(content);
  PageEntry* below = below_ ? below_->pages.find(block, which.number) : nullptr;
  if (below != nullptr) below->same = below->hash == entry.hash;  // whatever it was before
  if (below != nullptr && below->same) {
    ++pages_below_;
    tail_.pages.erase(block, which.number);
    at(which, headed ? Step::Below : Step::BelowBare);
    return ok_status();
  }
  ++pages_here_;
  entry.place = tail_.data_bytes;
  tail_.pages.put(block, which.number, entry);
  at(which, headed ? Step::Here : Step::HereBare);
  return keep(content);
}

Status PartWriter::zero(PageId which, bool headed) {
  const std::string& block = stream_.blocks()[which.block];
  tail_.pages.erase(block, which.number);
  PageEntry* below = below_ ? below_->pages.find(block, which.number) : nullptr;
  if (below != nullptr) below->same = false;
  if (headed) at(which, Step::Zero);
  return ok_status();
}

// --- The file

Status PartWriter::keep(std::string_view data) {
  tail_.data_bytes += data.size();
  while (!data.empty()) {
    const std::size_t room = std::min(data.size(), kChunkBytes - chunk_.size());
    chunk_.append(data.substr(0, room));
    data.remove_prefix(room);
    if (chunk_.size() < kChunkBytes) break;
    if (auto done = write_chunk(); !done) return done;
  }
  return ok_status();
}

Status PartWriter::write_chunk() {
  const std::string packed = pack(chunk_, compress_);
  tail_.chunks.push_back(packed.size());
  chunk_.clear();
  return write(packed);
}

Status PartWriter::finish() {
  if (auto done = add({}); !done) return done;  // an empty stream has a head as well
  if (auto done = stream_.end(); !done) return done;
  flush_step();
  if (!chunk_.empty()) {
    if (auto done = write_chunk(); !done) return done;
  }
  tail_.identity = identity();
  tail_.blocks = stream_.blocks();
  if (below_) {
    tail_.base = below_->base;
    below_->pages.each(
        [this](const std::string& block, std::uint64_t number, const PageEntry& entry) {
          const bool here = tail_.pages.find(block, number) != nullptr;
          if (!entry.same && !here) tail_.gone.emplace_back(block, number);
        });
  }
  const std::string plain = encode(tail_);
  const std::string packed = pack(plain, compress_);
  Checksum sum;
  sum.add(packed);
  const Foot foot{written_.count, packed.size(), plain.size(), sum.value()};
  if (auto done = write(packed); !done) return done;
  return write(encode(foot));
}

}  // namespace mare::checkpointfile
