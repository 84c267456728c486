// Tells ThreadSanitizer what Swift's libraries, which are not built for it, do on Linux. Empty in
// any other build. With this no report has to be suppressed.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && defined(__linux__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

// Swift's runtime announces each hand-over of a task (a continuation resumed, a job begun) as soon as
// the sanitizer calls __tsan_on_initialize in libswiftCore. A program holds the sanitizer itself,
// with an empty function of that name, which is the one that gets called.
__attribute__((constructor)) static void tell_swift(void) {
  void (*initialize)(void) = (void (*)(void))dlsym(RTLD_NEXT, "__tsan_on_initialize");
  if (initialize) initialize();
}

// Synchronization.Mutex takes a free lock, and gives back one that nobody waits for, in the caller's
// code, where the sanitizer sees it. All else happens in libswiftSynchronization and in the kernel,
// where it does not.
#define MUTEX "$s15Synchronization12_MutexHandleV"
#define SELF __attribute__((swift_context)) void *handle

__attribute__((swiftcall)) void slow_lock(uint32_t state, SELF) __asm__(MUTEX "9_lockSlowyys6UInt32VF");
__attribute__((swiftcall)) bool slow_try_lock(SELF) __asm__(MUTEX "12_tryLockSlowSbyF");
__attribute__((swiftcall)) void slow_unlock(SELF) __asm__(MUTEX "11_unlockSlowyyF");

__attribute__((swiftcall)) void slow_lock(uint32_t state, SELF) {
  typedef __attribute__((swiftcall)) void Lock(uint32_t, SELF);
  ((Lock *)dlsym(RTLD_NEXT, MUTEX "9_lockSlowyys6UInt32VF"))(state, handle);
  __tsan_acquire(handle);
}

__attribute__((swiftcall)) bool slow_try_lock(SELF) {
  typedef __attribute__((swiftcall)) bool Lock(SELF);
  bool is_ours = ((Lock *)dlsym(RTLD_NEXT, MUTEX "12_tryLockSlowSbyF"))(handle);
  if (is_ours) __tsan_acquire(handle);
  return is_ours;
}

__attribute__((swiftcall)) void slow_unlock(SELF) {
  typedef __attribute__((swiftcall)) void Unlock(SELF);
  __tsan_release(handle);
  ((Unlock *)dlsym(RTLD_NEXT, MUTEX "11_unlockSlowyyF"))(handle);
}

// A continuation that is resumed before its task has begun to wait is taken without announcement.
// (One that is resumed just while the task begins to may still be missed.)
__attribute__((swiftcall)) void *swift_task_getCurrent(void);

__attribute__((swiftcall)) void swift_continuation_resume(void *task) {
  typedef __attribute__((swiftcall)) void Resume(void *);
  __tsan_release(task);
  ((Resume *)dlsym(RTLD_NEXT, "swift_continuation_resume"))(task);
}

__attribute__((swiftasynccall)) void swift_continuation_await(void *context) {
  typedef __attribute__((swiftasynccall)) void Await(void *);
  Await *await = (Await *)dlsym(RTLD_NEXT, "swift_continuation_await");
  __tsan_acquire(swift_task_getCurrent());
  __attribute__((musttail)) return await(context);
}

#endif
#endif
