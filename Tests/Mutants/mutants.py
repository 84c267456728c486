"""The planted bugs. None of them ships. Scripts/mutants runs them.

Every other module of this folder, except planting, defines a list MUTANTS.
"""

import importlib
import pathlib

_MODULES = sorted(
    file.stem for file in pathlib.Path(__file__).parent.glob("*.py")
    if file.stem not in ("mutants", "planting"))

MUTANTS = [mutant for name in _MODULES for mutant in importlib.import_module(name).MUTANTS]
