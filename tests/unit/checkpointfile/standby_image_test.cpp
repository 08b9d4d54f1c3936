#include "hypervisor/checkpointfile/standby_image.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "hypervisor/checkpointfile/ram_stream.h"
#include "tests/unit/checkpointfile/made_stream.h"

namespace mare::checkpointfile {
namespace {

const StandbyImage::Room kRoom = [](Bytes) { return ok_status(); };

/// A QEMU that has mapped `image`, loads its stream, and then has this memory.
class Loader final : public StreamSink {
 public:
  explicit Loader(const StandbyImage& image)
      : memory_(read_file(image.memory())), stream_(*this), size_(0) {
    const std::string devices = read_file(image.devices());
    size_ = devices.size();
    EXPECT_TRUE(stream_.add(devices) && stream_.end());
  }
  Status bytes(std::string_view /*data*/) override { return ok_status(); }
  Status page(PageId which, bool headed, std::string_view content) override {
    if (!is_main(which)) return ok_status();
    EXPECT_FALSE(headed) << "the guest's pages are not in the stream";
    put(which.number, content);
    return ok_status();
  }
  Status zero(PageId which, bool /*headed*/) override {
    if (is_main(which)) put(which.number, std::string(kPageBytes, '\0'));
    return ok_status();
  }

  void expect(const Memory& memory) {
    const auto& pages = memory.at("pc.ram");
    for (std::size_t i = 0; i < pages.size(); ++i) {
      std::string page = i * kPageBytes < memory_.size()
                             ? memory_.substr(i * kPageBytes, kPageBytes)
                             : std::string{};
      page.resize(kPageBytes, '\0');
      const std::string wanted = pages[i].empty() ? std::string(kPageBytes, '\0') : pages[i];
      EXPECT_TRUE(page == wanted) << "page " << i;
    }
  }
  std::size_t size() const { return size_; }

 private:
  bool is_main(PageId which) const {
    return stream_.blocks()[which.block] == StandbyImage::kMainBlock;
  }
  void put(std::uint64_t number, std::string_view content) {
    if (memory_.size() < (number + 1) * kPageBytes) memory_.resize((number + 1) * kPageBytes);
    memory_.replace(number * kPageBytes, kPageBytes, content);
  }
  std::string memory_;
  RamStream stream_;
  std::size_t size_;
};

class StandbyImageTest : public testing::Test {
 protected:
  /// One more part, built on the last.
  std::string next() {
    std::string path = directory_ / std::to_string(++count_);
    const std::string stream = maker_.stream(memory_);
    last_ = write_part(path, stream, base_, maker_).base;
    base_ = last_;
    states_.push_back(memory_);
    streams_.push_back(stream.size());
    maker_.run(memory_);
    return path;
  }

  const Directory directory_;
  Maker maker_{7};
  Memory memory_ = maker_.memory();
  std::optional<Base> base_;
  Base last_;
  std::vector<Memory> states_;
  std::vector<std::size_t> streams_;
  int count_ = 0;
};

TEST_F(StandbyImageTest, HoldsWhatIsLoadedBesideItsMemory) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const Directory directory;
    Maker maker(seed * 31);
    const Memory memory = maker.memory();
    const std::string stream = maker.stream(memory);
    const Base written = write_part(directory / "part", stream, {}, maker).base;
    StandbyImage image(directory / "image");
    EXPECT_FALSE(image.holds());
    const Status done = image.unfold(written.path, written.identity, kRoom);
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(image.holds(), written.identity);
    EXPECT_GT(image.size().count, 0U);
    Loader loader(image);
    loader.expect(memory);
    EXPECT_LT(loader.size(), stream.size());
  }
}

/// What it is built on need not be there any more: only the new part is read.
TEST_F(StandbyImageTest, TakesInWhatAPartHasNew) {
  StandbyImage image(directory_ / "image");
  std::string before = next();
  ASSERT_TRUE(image.unfold(before, last_.identity, kRoom));
  for (int i = 0; i < 12; ++i) {
    const std::string path = next();
    std::filesystem::rename(before, before + ".away");
    const Status done = image.unfold(path, last_.identity, kRoom);
    ASSERT_TRUE(done) << i << " " << done.error().text();
    Loader(image).expect(states_.back());
    std::filesystem::rename(before + ".away", before);
    before = path;
  }
}

TEST_F(StandbyImageTest, IsMadeAnewWhereItIsOfAnotherState) {
  StandbyImage image(directory_ / "image");
  const std::string first = next();
  ASSERT_TRUE(image.unfold(first, last_.identity, kRoom));
  next();
  const std::string third = next();
  ASSERT_TRUE(image.unfold(third, last_.identity, kRoom));
  Loader(image).expect(states_.back());
}

/// A VM maps it: whoever writes there writes into a running guest.
TEST_F(StandbyImageTest, MemoryThatIsMappedStaysAsItIs) {
  const Directory other;
  StandbyImage image(directory_ / "image");
  ASSERT_TRUE(image.unfold(next(), last_.identity, kRoom));
  ASSERT_TRUE(image.mark_used());
  std::filesystem::create_hard_link(image.memory(), other / "mapped");
  const std::string was = read_file(other / "mapped");
  ASSERT_TRUE(image.unfold(next(), last_.identity, kRoom));
  EXPECT_TRUE(read_file(other / "mapped") == was);
  EXPECT_FALSE(read_file(image.memory()) == was);
}

TEST_F(StandbyImageTest, DamageIsFoundAndThePartReadAnew) {
  StandbyImage image(directory_ / "image");
  ASSERT_TRUE(image.unfold(next(), last_.identity, kRoom));
  // Every page is another one: what is built on it can't come out right.
  std::string memory = read_file(image.memory());
  for (std::size_t i = 0; i < memory.size(); i += kPageBytes) memory[i] ^= 1;
  write_file(image.memory(), memory);
  ASSERT_TRUE(image.unfold(next(), last_.identity, kRoom));
  Loader(image).expect(states_.back());
}

TEST_F(StandbyImageTest, NothingIsLeftOfWhatFailed) {
  StandbyImage image(directory_ / "image");
  const std::string part = next();
  Identity other = last_.identity;
  ++other.checksum;
  EXPECT_EQ(image.unfold(part, other, kRoom).error().code, Code::FailedPrecondition);
  EXPECT_EQ(image.unfold(part + "-gone", other, kRoom).error().code, Code::NotFound);
  const auto full = [](Bytes) { return Status(make_error(Code::ResourceExhausted, "no room")); };
  EXPECT_EQ(image.unfold(part, last_.identity, full).error().code, Code::ResourceExhausted);
  std::string damaged = read_file(part);
  damaged[damaged.size() / 3] ^= 1;
  write_file(part, damaged);
  EXPECT_FALSE(image.unfold(part, last_.identity, kRoom));
  EXPECT_FALSE(image.holds());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "image"));
}

TEST_F(StandbyImageTest, RoomIsAskedForBeforeAnythingIsWritten) {
  StandbyImage image(directory_ / "image");
  Bytes first;
  ASSERT_TRUE(image.unfold(next(), last_.identity, [&](Bytes more) {
    first = more;
    return ok_status();
  }));
  EXPECT_GE(first.count, std::filesystem::file_size(image.memory()) / 2);
  Bytes second;
  ASSERT_TRUE(image.unfold(next(), last_.identity, [&](Bytes more) {
    second = more;
    return ok_status();
  }));
  EXPECT_GT(second.count, 0U);
  EXPECT_LT(second, first);
}

}  // namespace
}  // namespace mare::checkpointfile
