"""Corrects what DocC gets from the compiler, and what it makes of it.

python3 Scripts/documentation_pages.py graphs FOLDER   the symbol graphs of a module, before DocC
python3 Scripts/documentation_pages.py start SITE      the first page of the site, after DocC
"""

import json
import pathlib
import sys

ABSTRACT = (
    "An embedded, append-only, log-structured key-value store for Swift, with a typed layer for "
    "Codable models and settings.")
TOPICS = {
    "Modules": [
        "Moraine", "MoraineEngine", "MoraineArchive", "MoraineS3", "MoraineTesting",
    ],
    "Where to begin": [
        "Moraine/GettingStarted", "Moraine/KeysAndBytes", "Moraine/DurabilityLevels",
        "Moraine/Promises", "MoraineTesting/HowMoraineIsTested", "Moraine/Architecture",
    ],
}


def starts_with(fragments: list[dict], *keywords: str) -> bool:
    wanted = [part for keyword in keywords for part in (keyword, " ")][:-1]
    return [fragment["spelling"] for fragment in fragments[:len(wanted)]] == wanted


def correct_graphs(folder: pathlib.Path) -> None:
    """The compiler calls an actor a class, and some of its initializers convenience initializers.
    Of the keywords of overloads, DocC keeps the first one."""
    for path in folder.glob("*.symbols.json"):
        graph = json.loads(path.read_text())
        for symbol in graph["symbols"]:
            heading = symbol["names"].get("subHeading", [])
            declaration = symbol.get("declarationFragments", [])
            if symbol["kind"]["identifier"] == "swift.class" and any(
                    part["spelling"] == "actor" for part in declaration):
                symbol["kind"]["displayName"] = "Actor"
            for fragments in (heading, declaration):
                if starts_with(fragments, "convenience", "init"):
                    del fragments[:2]
            if starts_with(heading, "static", "func"):
                heading[:3] = [{"kind": "keyword", "spelling": "static func"}]
        path.write_text(json.dumps(graph))


def complete_start(site: pathlib.Path) -> None:
    """DocC lists the names of the modules only: says what Moraine is, and where to begin."""
    data = site / "data"
    start = data / "documentation.json"
    page = json.loads(start.read_text())
    page["abstract"] = [{"type": "text", "text": ABSTRACT}]
    page["topicSections"] = []
    for title, names in TOPICS.items():
        identifiers = []
        for name in names:
            module = name.split("/")[0]
            identifier = f"doc://{module}/documentation/{name}"
            if identifier not in page["references"]:
                contents = json.loads((data / f"documentation/{module.lower()}.json").read_text())
                page["references"][identifier] = contents["references"][identifier]
            identifiers.append(identifier)
        page["topicSections"].append(
            {"title": title, "anchor": title.replace(" ", "-"), "identifiers": identifiers})
    start.write_text(json.dumps(page))


if __name__ == "__main__":
    {"graphs": correct_graphs, "start": complete_start}[sys.argv[1]](pathlib.Path(sys.argv[2]))
