#include "test_support.h"

#if defined(__linux__)
#include <sys/fsuid.h>
#endif
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
