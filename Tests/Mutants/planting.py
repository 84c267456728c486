"""Defines planted bugs, and plants them in a copy of the sources.

One copy contains all bugs and is built once. Each bug is off unless the environment variable
MORAINE_MUTANT names it. The copy checks the variable where a replacement says ON.
"""

import dataclasses
import re

VARIABLE = "MORAINE_MUTANT"


@dataclasses.dataclass(frozen=True)
class Edit:
    """One edit: the text to find, which must occur exactly once, and its replacement."""

    path: str
    find: str
    replacement: str


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    #: The promise (P), rule or fault of the contract that the bug breaks.
    promise: str
    edits: tuple
    #: The test that must catch the bug: a filter of `swift test`, or `crash-test …`.
    test: str
    #: Why no test can detect the bug. Such a bug is not counted, and its test must pass.
    equivalent: str = ""
    #: The trait without which neither the code nor the test exists.
    trait: str = ""


def engine(path, find, replacement):
    return Edit("Sources/MoraineEngine/" + path, find, replacement)


def format_module(path, find, replacement):
    return Edit("Sources/MoraineFormat/" + path, find, replacement)


def storage(path, find, replacement):
    return Edit("Sources/MoraineStorage/" + path, find, replacement)


#: Source file that is added to each module with planted bugs.
SWITCH = """
#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Which planted bug is on. Not part of the project: Scripts/mutants wrote this.
public enum Planted {
  public static let name: String = getenv("%s").map { String(cString: $0) } ?? ""

  public static func isOn(_ candidate: String) -> Bool { name == candidate }
}
""" % VARIABLE


class DoesNotApply(Exception):
    pass


def plant(mutants, read):
    """Returns a dictionary of path -> text with every bug. `read` returns the text of a path."""
    places = {}
    for mutant in mutants:
        for edit in mutant.edits:
            text = read(edit.path)
            if text.count(edit.find) != 1:
                raise DoesNotApply(
                    f"{mutant.name}: {edit.path} has this {text.count(edit.find)} times, not once:\n"
                    + edit.find)
            start = text.index(edit.find)
            replacement = re.sub(
                r"\bON\(([a-z-]+)\)", lambda match: f'Planted.isOn("{match[1]}")', edit.replacement)
            replacement = re.sub(r"\bON\b", f'Planted.isOn("{mutant.name}")', replacement)
            places.setdefault(edit.path, []).append(
                (start, start + len(edit.find), replacement, mutant.name))
    planted = {}
    for path, edits in places.items():
        edits.sort()
        text, result, end = read(path), [], 0
        for start, stop, replacement, name in edits:
            if start < end:
                raise DoesNotApply(f"{name}: overlaps another bug in {path}")
            result += [text[end:start], replacement]
            end = stop
        planted[path] = "".join(result) + text[end:]
        planted["/".join(path.split("/")[:2]) + "/Planted.swift"] = SWITCH
    return planted
