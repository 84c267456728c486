// Tells ThreadSanitizer what Swift's libraries, which are not built for it, do on Linux. Empty in
// any other build. With this no report has to be suppressed.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && defined(__linux__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

// A continuation that is resumed before its task waits is taken without announcement; one that is
// resumed while the task waits is announced by the runtime. Which of the two it is, both sides agree on
// here, under a lock that the sanitizer does not see, or it would hide races. The offsets are those of
// Swift 6 (Task.h, TaskPrivate.h); `check` notices others.
enum { PENDING, AWAITED, RESUMED };

#define UNSEEN __attribute__((no_sanitize("thread"))) static
#define PLACES 4096

static void *waiting[PLACES];
static int waiting_lock;

UNSEEN void lock(void) {
  while (__atomic_exchange_n(&waiting_lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

UNSEEN void unlock(void) { __atomic_store_n(&waiting_lock, 0, __ATOMIC_RELEASE); }

UNSEEN uintptr_t status(void *context) {
  return __atomic_load_n((uintptr_t *)((char *)context + 24), __ATOMIC_ACQUIRE);
}

UNSEEN void *context_of(void *task) { return *(void **)((char *)task + 64); }

// Replaces one entry by another; false when there is none.
UNSEEN bool replace(void *old, void *new) {
  for (int place = 0; place < PLACES; place++) {
    if (waiting[place] != old) continue;
    waiting[place] = new;
    return true;
  }
  return false;
}

UNSEEN void check(bool holds) {
  if (holds) return;
  fputs("thread_sanitizer.c does not know this version of Swift's tasks\n", stderr);
  abort();
}

__attribute__((swiftcall)) void *swift_task_getCurrent(void);

// True when the task is about to wait, or waits.
UNSEEN bool take(void *task) {
  void *context = context_of(task);
  if (!replace(context, NULL)) return false;
  unlock();
  while (status(context) == PENDING) sched_yield();
  return true;
}

// Before and after a task is resumed. The lock is held in between unless it waits.
UNSEEN bool begin_resume(void *task) {
  lock();
  __tsan_release(task);
  if (take(task)) return true;
  check(status(context_of(task)) == PENDING);
  return false;
}

UNSEEN void end_resume(bool waits) {
  if (!waits) unlock();
}

__attribute__((swiftcall)) void swift_continuation_resume(void *task) {
  typedef __attribute__((swiftcall)) void Resume(void *);
  Resume *resume = (Resume *)dlsym(RTLD_NEXT, "swift_continuation_resume");
  bool waits = begin_resume(task);
  resume(task);
  end_resume(waits);
}

// Of functions that throw, such as Task.sleep.
__attribute__((swiftcall)) void swift_continuation_throwingResume(void *task) {
  typedef __attribute__((swiftcall)) void Resume(void *);
  Resume *resume = (Resume *)dlsym(RTLD_NEXT, "swift_continuation_throwingResume");
  bool waits = begin_resume(task);
  resume(task);
  end_resume(waits);
}

__attribute__((swiftcall)) void swift_continuation_throwingResumeWithError(
    void *task, void *error) {
  typedef __attribute__((swiftcall)) void Resume(void *, void *);
  Resume *resume = (Resume *)dlsym(RTLD_NEXT, "swift_continuation_throwingResumeWithError");
  bool waits = begin_resume(task);
  resume(task, error);
  end_resume(waits);
}

UNSEEN void enter(void *task, void *context) {
  check(context_of(task) == context);
  if (status(context) == PENDING) check(replace(NULL, context));
}

__attribute__((swiftasynccall)) void swift_continuation_await(void *context) {
  typedef __attribute__((swiftasynccall)) void Await(void *);
  Await *await = (Await *)dlsym(RTLD_NEXT, "swift_continuation_await");
  void *task = swift_task_getCurrent();
  lock();
  __tsan_acquire(task);
  enter(task, context);
  unlock();
  __attribute__((musttail)) return await(context);
}

#endif
#endif
