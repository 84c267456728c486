"""The child processes of the scripts in this folder.

A child that has died or hangs must end the script, and not let it wait for ever: each question to a
child has a deadline, and a script that fails kills its children by their ids.
"""

import os
import select
import signal
import subprocess
import sys
import traceback

#: Seconds. A question takes milliseconds, on a loaded machine a few seconds.
DEADLINE = 120

_running = []


def start(command, **pipes):
    child = subprocess.Popen(command, env={**os.environ, "SWIFT_BACKTRACE": "enable=no"}, **pipes)
    _running.append(child)
    return child


def ask(child, line, seconds=DEADLINE):
    """Returns the answer to a line. Raises BrokenPipeError when the child has ended, and
    TimeoutError when it does not answer."""
    child.stdin.write((line + "\n").encode())
    child.stdin.flush()
    # Every question has one line as its answer, so no earlier answer waits in the buffer.
    poll = select.poll()
    poll.register(child.stdout, select.POLLIN)
    if not poll.poll(seconds * 1000):
        raise TimeoutError(f"process {child.pid} has not answered in {seconds} s: {line[:60]}")
    answer = child.stdout.readline().decode()
    if not answer.endswith("\n"):
        raise BrokenPipeError(f"process {child.pid} has ended by itself")
    return answer.strip()


def kill(child):
    child.send_signal(signal.SIGKILL)
    code = child.wait()
    if code != -signal.SIGKILL:
        raise AssertionError(f"process {child.pid} had ended by itself with {code}")


def forget(child):
    """Closes the pipes of a child that has ended and that no thread reads."""
    for pipe in (child.stdin, child.stdout):
        try:
            if pipe:
                pipe.close()
        except BrokenPipeError:
            pass  # A question that the child did not read.
    _running.remove(child)


def report_failures(run):
    """Calls `run`. After any exception it prints the command that repeats the run, kills all
    children, and ends the process without waiting for its threads."""
    try:
        run()
    except Exception as error:
        if not isinstance(error, AssertionError):
            traceback.print_exc()
        words = str(error) or type(error).__name__
        print(f"VIOLATION: {words}\nrepeat with: {sys.executable} {' '.join(sys.argv)}",
              file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        for child in list(_running):
            child.kill()
        os._exit(1)
