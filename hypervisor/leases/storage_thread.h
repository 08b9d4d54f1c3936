// The storage's voice, asked by a thread of its own: one that hangs holds nobody else up.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "hypervisor/leases/enforcer.h"

namespace mare::leases {

class StorageThread final : public StorageVoice {
 public:
  using Look = std::function<NoteSeen(const std::string& note)>;
  explicit StorageThread(Look look = look_for_note);
  /// Does not wait for a storage that hangs.
  ~StorageThread() override;
  StorageThread(const StorageThread&) = delete;
  StorageThread& operator=(const StorageThread&) = delete;

  void ask(const std::string& note, MonotonicTime now) override;
  std::optional<Answer> take() override;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Answer> question;
    std::optional<Answer> answer;
    bool ends = false;
  };
  static void run(const std::shared_ptr<Shared>& shared, const Look& look);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace mare::leases
