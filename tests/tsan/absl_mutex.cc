// Tells the thread sanitizer of absl::Mutex. Debian's Abseil is a shared library built without the
// sanitizer, so that its locks order nothing in its eyes and every guarded member is a race. These
// definitions stand before the library's: each calls the library's own and says which happens
// before which. Only in builds with TALLY_SANITIZE=thread; docs in tests/tsan.supp.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"

namespace {

// The mutex that this thread awaits something on or unlocks: it holds it while conditions, its own
// or those of waiters, are looked at.
thread_local absl::Mutex* held = nullptr;

template <typename Result, typename... Args>
Result Next(const char* symbol, Args... args) {
  using Function = Result (*)(Args...);
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, symbol))(args...);
}

}  // namespace

#define NEXT(Result, symbol, ...) Next<Result>("_ZN" TALLY_ABSL symbol, __VA_ARGS__)
#define TALLY_ABSL "4absl7debian3"

void absl::Mutex::Lock() {
  NEXT(void, "5Mutex4LockEv", this);
  __tsan_acquire(this);
}

void absl::Mutex::Unlock() {
  __tsan_release(this);
  held = this;
  NEXT(void, "5Mutex6UnlockEv", this);
  held = nullptr;
}

void absl::Mutex::ReaderLock() {
  NEXT(void, "5Mutex10ReaderLockEv", this);
  __tsan_acquire(this);
}

void absl::Mutex::ReaderUnlock() {
  __tsan_release(this);
  held = this;
  NEXT(void, "5Mutex12ReaderUnlockEv", this);
  held = nullptr;
}

bool absl::Mutex::TryLock() {
  const bool locked = NEXT(bool, "5Mutex7TryLockEv", this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void absl::Mutex::Await(const Condition& condition) {
  __tsan_release(this);
  held = this;
  NEXT(void, "5Mutex5AwaitERKNS0_9ConditionE", this, &condition);
  held = nullptr;
  __tsan_acquire(this);
}

bool absl::Mutex::AwaitWithTimeout(const Condition& condition, absl::Duration timeout) {
  __tsan_release(this);
  held = this;
  const bool met = NEXT(bool, "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE", this,
                        &condition, timeout);
  held = nullptr;
  __tsan_acquire(this);
  return met;
}

bool absl::Condition::Eval() const {
  if (held != nullptr) __tsan_acquire(held);
  const bool met = Next<bool>("_ZNK" TALLY_ABSL "9Condition4EvalEv", this);
  if (held != nullptr) __tsan_release(held);  // which may be given up now
  return met;
}
