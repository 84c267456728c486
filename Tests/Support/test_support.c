#include "test_support.h"

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
