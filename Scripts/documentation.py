"""Lists the public declarations without a documentation comment, from the compiler's symbol graphs.

python3 Scripts/documentation.py SCRATCH MODULE...   Exit code 1 when it lists any.
"""

import json
import pathlib
import sys

# Declarations that need no comment, or that a protocol documents.
SELF_EVIDENT = {
    "description", "debugDescription", "hash(into:)", "==(_:_:)", "<(_:_:)", "!=(_:_:)",
    "encode(to:)", "init(from:)", "makeAsyncIterator()", "next()", "next(isolation:)",
    "Element", "Failure", "AsyncIterator", "RawValue", "rawValue", "init(rawValue:)",
    "init(stringLiteral:)", "init(arrayLiteral:)", "Output", "receive(subscriber:)",
}


def undocumented(path: pathlib.Path) -> list[str]:
    graph = json.loads(path.read_text())
    inherited = {r["source"] for r in graph["relationships"] if r.get("sourceOrigin")}
    found = []
    for symbol in graph["symbols"]:
        name = symbol["pathComponents"][-1]
        if symbol["accessLevel"] not in ("public", "open"):
            continue
        if symbol["kind"]["identifier"] == "swift.extension":
            continue
        if "docComment" in symbol or symbol["identifier"]["precise"] in inherited:
            continue
        if name in SELF_EVIDENT or "::SYNTHESIZED::" in symbol["identifier"]["precise"]:
            continue
        place = symbol.get("location")
        where = f"{place['uri'].split('/Sources/')[-1]}:{place['position']['line'] + 1}: " if place else ""
        found.append(where + ".".join(symbol["pathComponents"]))
    return sorted(found)


def main() -> int:
    scratch, modules = pathlib.Path(sys.argv[1]), sys.argv[2:]
    bad = 0
    for module in modules:
        graphs = [
            path for path in scratch.rglob("*.symbols.json")
            if path.name == f"{module}.symbols.json" or path.name.startswith(f"{module}@")
        ]
        if not graphs:
            print(f"no symbol graph of {module} below {scratch}", file=sys.stderr)
            bad += 1
        for line in sorted({line for path in graphs for line in undocumented(path)}):
            print(f"no documentation comment: {line}", file=sys.stderr)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
