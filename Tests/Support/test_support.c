#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "test_support.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#if defined(__linux__)
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int support_forks_seen_by_child(uint64_t (*seen)(void)) {
  pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) _exit((int)seen());
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

int support_files_as_nobody(int is_nobody) {
  if (geteuid() != 0) return 1;
#if defined(__linux__)
  uid_t wanted = is_nobody ? 65534 : 0;
  setfsuid(wanted);
  return (uid_t)setfsuid((uid_t)-1) == wanted;
#else
  return 0;
#endif
}

int support_mount_overlay(const char *root) {
#if defined(__linux__)
  static const char *const names[] = {"lower", "upper", "work", "merged"};
  char path[PATH_MAX], options[3 * PATH_MAX];
  if (unshare(CLONE_NEWNS) < 0) return 0;
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return 0;
  if (mount("none", root, "tmpfs", 0, NULL) < 0) return 0;
  for (int index = 0; index < 4; index++) {
    snprintf(path, sizeof path, "%s/%s", root, names[index]);
    if (mkdir(path, 0700) < 0) return 0;
  }
  snprintf(
      options, sizeof options, "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", root, root,
      root);
  return mount("overlay", path, "overlay", 0, options) == 0;
#else
  (void)root;
  return 0;
#endif
}

int support_lies_on_overlay(const char *path) {
#if defined(__linux__)
  const unsigned long overlay = 0x794c7630;
  struct statfs status;
  return statfs(path, &status) == 0 && (unsigned long)status.f_type == overlay;
#else
  (void)path;
  return 0;
#endif
}

int64_t support_dirty_pages(const char *path) {
#if defined(__linux__)
  const long cachestat = 451;  // Linux 6.5
  uint64_t range[2] = {0, 0}, counts[5] = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  long answer = syscall(cachestat, file, range, counts, 0);
  close(file);
  return answer < 0 ? -1 : (int64_t)counts[1];
#else
  (void)path;
  return -1;
#endif
}

pid_t support_begin_child(void (*body)(void)) {
  int ends[2];
  if (pipe(ends) < 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    body();
    if (write(ends[1], "", 1) != 1) _exit(1);
    while (1) pause();
  }
  close(ends[1]);
  char byte;
  if (child > 0 && read(ends[0], &byte, 1) != 1) {
    support_end_child(child);
    child = -1;
  }
  close(ends[0]);
  return child;
}

void support_end_child(pid_t child) {
  if (child <= 0) return;
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}
