// Waiting for writes to a file: inotify on Linux, kqueue on Apple (which is what a DispatchSource of
// the file system stands on; a thread of our own waits, and no queue is needed).

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "moraine_shims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__linux__)

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

// By descriptor, not by path: the file may be replaced in between.
static int add_watch(int events, int file) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  return inotify_add_watch(events, path, IN_MODIFY) < 0 ? -errno : 0;
}

int moraine_watch(int directory, const char *name, int *other) {
  int file = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -errno;
  int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  int code = events < 0 ? -errno : add_watch(events, file);
  close(file);
  if (code == 0) {
    *other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (*other < 0) code = -errno;
  }
  if (code != 0) {
    if (events >= 0) close(events);
    return code;
  }
  return events;
}

static void drain(int fd) {
  char bytes[4096];
  while (read(fd, bytes, sizeof bytes) > 0) {
  }
}

void moraine_watch_wait(int watch, int other, int timeout_ms) {
  struct pollfd sources[2] = {{watch, POLLIN, 0}, {other, POLLIN, 0}};
  if (poll(sources, 2, timeout_ms) <= 0) return;
  if (sources[0].revents) drain(watch);
  if (sources[1].revents) drain(other);
}

void moraine_watch_interrupt(int watch, int other) {
  uint64_t one = 1;
  (void)watch;
  ssize_t written = write(other, &one, sizeof one);
  (void)written;
}

#elif defined(__APPLE__)

#include <sys/event.h>
#include <sys/time.h>

int moraine_watch(int directory, const char *name, int *other) {
  int file = openat(directory, name, O_EVTONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -errno;
  int queue = kqueue();
  struct kevent wanted[2];
  EV_SET(&wanted[0], file, EVFILT_VNODE, EV_ADD | EV_CLEAR, NOTE_WRITE | NOTE_EXTEND, 0, NULL);
  EV_SET(&wanted[1], 0, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0, NULL);
  if (queue < 0 || kevent(queue, wanted, 2, NULL, 0, NULL) < 0) {
    int code = -errno;
    if (queue >= 0) close(queue);
    close(file);
    return code;
  }
  *other = file;
  return queue;
}

void moraine_watch_wait(int watch, int other, int timeout_ms) {
  struct kevent event;
  struct timespec limit = {timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};
  (void)other;
  kevent(watch, NULL, 0, &event, 1, &limit);
}

void moraine_watch_interrupt(int watch, int other) {
  struct kevent trigger;
  (void)other;
  EV_SET(&trigger, 0, EVFILT_USER, 0, NOTE_TRIGGER, 0, NULL);
  kevent(watch, &trigger, 1, NULL, 0, NULL);
}

#else

int moraine_watch(int directory, const char *name, int *other) {
  (void)directory;
  (void)name;
  (void)other;
  return -ENOSYS;
}

void moraine_watch_wait(int watch, int other, int timeout_ms) {
  (void)watch;
  (void)other;
  (void)timeout_ms;
}

void moraine_watch_interrupt(int watch, int other) {
  (void)watch;
  (void)other;
}

#endif
