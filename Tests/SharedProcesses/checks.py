#!/usr/bin/env python3
"""The scripts of this folder notice what they are for: half a transaction, and a process that has died
or hangs.

checks.py [-v]
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True

import children  # noqa: E402
import histories  # noqa: E402


class HalvesOfTransactions(unittest.TestCase):
    """The process of transaction 7 was killed when it was about to append to two lists."""

    def check(self, final):
        history = histories.History()
        for line in [{"began": 1, "moment": 1},
                     {"id": 1, "intends": ["x", "y"]},
                     {"id": 1, "reads": {"x": [], "y": []}, "appends": ["x", "y"],
                      "began": 1, "ended": 2},
                     {"began": 7, "moment": 3},
                     {"id": 7, "intends": ["x"]},
                     {"id": 7, "intends": ["x", "y"]}]:
            history.add(line)
        committed = histories.complete(history, final)
        histories.check_lists(committed, final)
        return histories.circle(histories.dependencies(committed, final))

    def test_whole_transaction_is_accepted(self):
        self.assertIsNone(self.check({"x": [1, 7], "y": [1, 7]}))

    def test_transaction_without_effect_is_accepted(self):
        self.assertIsNone(self.check({"x": [1], "y": [1]}))

    def test_half_a_transaction_is_a_violation(self):
        """Regression: the appends of a killed process were taken from the lists that had its id, so
        a transaction of which one list survived and another did not was accepted."""
        for final in [{"x": [1, 7], "y": [1]}, {"x": [1], "y": [1, 7]}]:
            with self.assertRaisesRegex(AssertionError, "lost: . lacks 7"):
                self.check(final)

    def test_append_to_another_list_is_a_violation(self):
        with self.assertRaisesRegex(AssertionError, "7 has not appended to z"):
            self.check({"x": [1, 7], "y": [1, 7], "z": [7]})

    def test_id_that_was_not_about_to_be_committed_is_a_violation(self):
        with self.assertRaisesRegex(AssertionError, "G1a: x has 9"):
            self.check({"x": [1, 9], "y": [1]})


class DeadAndHangingProcesses(unittest.TestCase):
    def test_stopped_child_is_reported_at_the_deadline(self):
        child = children.start(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(children.ask(child, "a question", 60), "a question")
        child.send_signal(signal.SIGSTOP)
        with self.assertRaisesRegex(TimeoutError, "has not answered"):
            children.ask(child, "another question", 0.2)
        children.kill(child)
        self.assertEqual(child.returncode, -signal.SIGKILL)
        with self.assertRaises(BrokenPipeError):
            children.ask(child, "a last question", 60)
        children.forget(child)

    def run_script(self, script, program, deadline):
        """Runs a script with a program that is not Moraine. Returns its last words."""
        with tempfile.TemporaryDirectory() as place:
            moraine = os.path.join(place, "moraine")
            numbers = os.path.join(place, "numbers")
            with open(moraine, "w") as file:
                file.write(f"#!/bin/sh\necho $$ >>'{numbers}'\n{program}\n")
            os.chmod(moraine, 0o755)
            done = subprocess.run(
                [sys.executable, str(FOLDER / script), moraine, os.path.join(place, "ground"),
                 "--deadline", str(deadline)],
                capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("VIOLATION: ", done.stderr)
            self.assertIn("repeat with: ", done.stderr)
            if os.path.exists(numbers):
                for number in pathlib.Path(numbers).read_text().split():
                    self.wait_for_the_end(int(number))
            return done.stderr

    def wait_for_the_end(self, number):
        """A child that was killed is gone when its new parent has seen its end."""
        for _ in range(600):
            try:
                os.kill(number, 0)
            except ProcessLookupError:
                return
            state = pathlib.Path(f"/proc/{number}/stat")
            if state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
            time.sleep(0.1)
        self.fail(f"process {number} still runs")

    def test_process_that_hangs_ends_each_script(self):
        """Regression: a process that did not answer let the script wait for ever."""
        for script in ["kills.py", "counter.py", "histories.py"]:
            with self.subTest(script):
                words = self.run_script(script, "exec sleep 600", 1)
                self.assertRegex(words, "has not answered|has said nothing")

    def test_process_that_ends_ends_each_script(self):
        """Regression: the threads of the other processes went on for ever."""
        for script in ["kills.py", "counter.py", "histories.py"]:
            with self.subTest(script):
                # On a loaded machine, a shell may take seconds to start and end.
                words = self.run_script(script, "exit 3", 50)
                self.assertRegex(words, "ended|Broken pipe")


if __name__ == "__main__":
    unittest.main()
