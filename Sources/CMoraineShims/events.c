// Events of directories and files: inotify on Linux, kqueue on Apple. (A DispatchSource of the file
// system uses kqueue too; here our own thread waits, and no dispatch queue is needed.)

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "moraine_shims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)

#include <poll.h>
#include <sys/inotify.h>

int moraine_directory_events(void) {
  int queue = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  return queue < 0 ? -errno : queue;
}

int64_t moraine_directory_watch(int queue, int directory) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", directory);
  int watch = inotify_add_watch(
      queue, path,
      IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE_SELF |
          IN_MOVE_SELF | IN_ONLYDIR);
  return watch < 0 ? -errno : watch;
}

// Watches by descriptor, not by path: the file may be replaced in between.
int64_t moraine_file_watch(int queue, int directory, const char *name) {
  int file = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -errno;
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  int watch = inotify_add_watch(queue, path, IN_MODIFY);
  int code = errno;
  close(file);
  return watch < 0 ? -code : watch;
}

void moraine_directory_unwatch(int queue, int64_t watch) {
  (void)inotify_rm_watch(queue, (int)watch);
}

ssize_t moraine_directory_read(int queue, int timeout_ms, struct moraine_directory_event *events) {
  struct pollfd source = {queue, POLLIN, 0};
  if (poll(&source, 1, timeout_ms) <= 0) return 0;
  // The buffer holds no more events than the caller has places for: each takes 16 bytes at least.
  _Alignas(struct inotify_event) char bytes[16 * moraine_directory_event_limit];
  ssize_t length = read(queue, bytes, sizeof bytes), count = 0;
  for (ssize_t place = 0; place < length; count++) {
    const struct inotify_event *event = (const struct inotify_event *)(bytes + place);
    struct moraine_directory_event *result = &events[count];
    result->watch = event->mask & IN_Q_OVERFLOW ? -1 : event->wd;
    bool fits = event->len > 0 && strlen(event->name) < sizeof result->name;
    snprintf(result->name, sizeof result->name, "%s", fits ? event->name : event->len > 0 ? "?" : "");
    place += (ssize_t)sizeof *event + event->len;
  }
  return count;
}

#elif defined(__APPLE__)

#include <sys/event.h>
#include <sys/time.h>

int moraine_directory_events(void) {
  int queue = kqueue();
  return queue < 0 ? -errno : queue;
}

// The watch is a separate descriptor, so that it does not end with the caller's.
int64_t moraine_directory_watch(int queue, int directory) {
  int watch = openat(directory, ".", O_EVTONLY | O_CLOEXEC);
  if (watch < 0) return -errno;
  struct kevent wanted;
  EV_SET(&wanted, watch, EVFILT_VNODE, EV_ADD | EV_CLEAR,
         NOTE_WRITE | NOTE_EXTEND | NOTE_DELETE | NOTE_RENAME | NOTE_REVOKE, 0, NULL);
  if (kevent(queue, &wanted, 1, NULL, 0, NULL) < 0) {
    int code = -errno;
    close(watch);
    return code;
  }
  return watch;
}

int64_t moraine_file_watch(int queue, int directory, const char *name) {
  int watch = openat(directory, name, O_EVTONLY | O_NOFOLLOW | O_CLOEXEC);
  if (watch < 0) return -errno;
  struct kevent wanted;
  EV_SET(&wanted, watch, EVFILT_VNODE, EV_ADD | EV_CLEAR, NOTE_WRITE | NOTE_EXTEND, 0, NULL);
  if (kevent(queue, &wanted, 1, NULL, 0, NULL) < 0) {
    int code = -errno;
    close(watch);
    return code;
  }
  return watch;
}

void moraine_directory_unwatch(int queue, int64_t watch) {
  (void)queue;
  close((int)watch);
}

ssize_t moraine_directory_read(int queue, int timeout_ms, struct moraine_directory_event *events) {
  struct kevent found[moraine_directory_event_limit];
  struct timespec limit = {timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};
  int count = kevent(
      queue, NULL, 0, found, moraine_directory_event_limit, timeout_ms < 0 ? NULL : &limit);
  for (int place = 0; place < count; place++) {
    events[place].watch = (int64_t)found[place].ident;
    events[place].name[0] = 0;
  }
  return count < 0 ? 0 : count;
}

#else

int moraine_directory_events(void) { return -ENOSYS; }

int64_t moraine_directory_watch(int queue, int directory) {
  (void)queue, (void)directory;
  return -ENOSYS;
}

int64_t moraine_file_watch(int queue, int directory, const char *name) {
  (void)queue, (void)directory, (void)name;
  return -ENOSYS;
}

void moraine_directory_unwatch(int queue, int64_t watch) { (void)queue, (void)watch; }

ssize_t moraine_directory_read(int queue, int timeout_ms, struct moraine_directory_event *events) {
  (void)queue, (void)timeout_ms, (void)events;
  return 0;
}

#endif
