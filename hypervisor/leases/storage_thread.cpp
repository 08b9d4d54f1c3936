#include "hypervisor/leases/storage_thread.h"

namespace mare::leases {

StorageThread::StorageThread(Look look) {
  // Detached: while it hangs in the kernel nothing can end it, and an agent must be able to.
  std::thread([shared = shared_, look = std::move(look)] { run(shared, look); }).detach();
}

StorageThread::~StorageThread() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
}

void StorageThread::ask(const std::string& note, MonotonicTime now) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->question) return;
  shared_->question = Answer{note, now, NoteSeen::Unknown};
  shared_->changed.notify_all();
}

std::optional<StorageVoice::Answer> StorageThread::take() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->answer, std::nullopt);
}

void StorageThread::run(const std::shared_ptr<Shared>& shared, const Look& look) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] { return shared->ends || shared->question.has_value(); });
    if (shared->ends) return;
    Answer answer = *shared->question;
    lock.unlock();
    answer.seen = look(answer.note);
    lock.lock();
    shared->answer = std::move(answer);
    shared->question.reset();
  }
}

}  // namespace mare::leases
