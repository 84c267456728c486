"""The planted bugs, none of which ships: row 12 of the proof. Scripts/mutants runs them.

Every other module of this folder that has a list named MUTANTS takes part.
"""

import importlib
import pathlib

_MODULES = sorted(
    file.stem for file in pathlib.Path(__file__).parent.glob("*.py")
    if file.stem not in ("mutants", "planting"))

MUTANTS = [mutant for name in _MODULES for mutant in importlib.import_module(name).MUTANTS]
