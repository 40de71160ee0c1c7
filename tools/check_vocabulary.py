"""Lists names and words of the old vocabulary in src, tests, docs, examples, benchmarks and README.md.

    python tools/check_vocabulary.py [ROOT]

prints `file:line: kind name: write ...` for each one and exits with 1 if there are any. Names are identifiers: modules,
classes, functions, arguments, attributes, variables, options and keys, in Python, C++, YAML, HTML and CSS, and in the
code of Markdown pages, comments and docstrings. An old name that is an English word is fine in prose; NEVER lists the
few words that are not. The script has no dependencies.
"""

from __future__ import annotations

import ast
import functools
import io
import itertools
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

# ---------------------------------------------------------------------------------------------------------- the table

KINDS = ("module", "class", "function", "argument", "attribute", "variable", "option", "test")
NAMES = tuple(kind for kind in KINDS if kind != "test")  # the name of a test function is a sentence: usually prose
INTERFACE = tuple(kind for kind in NAMES if kind != "variable")

SIMULATE = ("src/gradsim/simulate", "src/gradsim/bridge.py", "tests/simulate")
RENDER = ("src/gradsim/render", "tests/render")
FIT = ("src/gradsim/fit", "tests/fit")
ANSWERS = ("src/gradsim/fit", "src/gradsim/compare", "src/gradsim/report", "src/gradsim/experiments", "src/gradsim/cli")
BENCHMARKS = ("benchmarks", "src/gradsim/bench", "tests/bench", "tests/benchmarks")
NATIVE = ("src/gradsim/native", *SIMULATE, *RENDER)
HEADERS = ("src/gradsim/native", "src/gradsim/simulate/native")


@dataclass(frozen=True)
class Old:
    """What to write instead of an old name, and where the old name is forbidden."""

    write: str
    inside: tuple[str, ...] = ()  # paths from the root; none: everywhere
    outside: tuple[str, ...] = ()  # paths within these where the name is fine
    kinds: tuple[str, ...] = NAMES
    whole: bool = False  # only as the whole name; otherwise also as a word of it: `march` in `MarchKernels`
    unless: tuple[str, ...] = ()  # parts of names, in snake case, in which the word is fine


# Old name in snake case -> what to write instead. `Found`, `_found` and `FOUND` are all `found` here.
OLD_NAMES = {
    # the engine
    "march": Old("rigid_rollout, node_rollout or world_rollout", kinds=KINDS),
    "marched": Old("simulated", kinds=KINDS),
    "shard": Old("BatchShard", kinds=("module", "class"), whole=True),
    "pattern": Old("SceneSignature", SIMULATE, kinds=KINDS),
    "starts": Old("initial_state", SIMULATE, kinds=INTERFACE, whole=True),
    "touch": Old("rigid_contact", SIMULATE),
    "touching": Old("contact", kinds=("module",)),
    "contact": Old("node_contact", ("src/gradsim/simulate",), kinds=("module",), whole=True),
    "law": Old("contact_law", SIMULATE, HEADERS, kinds=("module", "class", "function"), whole=True),
    "parts": Old("state_layout", SIMULATE, kinds=INTERFACE, whole=True),
    "tables": Old("parameters", SIMULATE, HEADERS),  # C++ has arrays of Table structures
    "flattener": Old("Batcher"),
    "worlds": Old("Batcher", (*SIMULATE, *RENDER), kinds=("module", "class"), whole=True),
    "lightness": Old("compliance"),
    "driver": Old("SignalBinding (simulate) or PolicyRunner (fit)"),
    "tame": Old("all_finite_fast"),
    "room": Old("scratch", NATIVE),
    "kept": Old("saved", NATIVE),
    # time
    "rhythm": Old("Time"),
    "clock": Old("Time", ("src/gradsim/scene", *FIT)),  # the engine's clock counts steps and rows of the history
    "schedule": Old("Time", ("src/gradsim/scene", *SIMULATE)),
    # caches
    "remember": Old("the cache, with an explicit key"),
    "once": Old("the cache, with an explicit key", kinds=("module", "function", "attribute"), whole=True),
    "made": Old("the cache, with an explicit key", kinds=("module", "function", "attribute"), whole=True),
    # public names
    "each": Old("per_element", whole=True),
    "is_each": Old("is_per_element", whole=True),
    "least_change": Old("MinimumNorm"),
    "wrapped": Old("TorchOptimizer", kinds=("module", "class"), whole=True),
    "drive": Old("rollout"),
    # fit, compare, report
    "slopes": Old("forward_jacobian", ANSWERS),  # elsewhere the slopes of Runge-Kutta stages, or inclined planes
    "bar": Old("noise_threshold (fit) or target (benchmarks)", (*FIT, *BENCHMARKS)),
    "rival": Old("alternative minimum (fit) or peer (benchmarks)"),
    "rivals": Old("alternative_minima (fit) or peers (benchmarks)"),
    "sought": Old("OptimizeResult"),
    "found": Old("SearchResult", kinds=("class",), whole=True),
    "descend": Old("iterate or solve"),
    "descents": Old("solve"),
    "descended": Old("minimized"),
    "posed": Old("make_trial", FIT, unless=("well_posed", "ill_posed")),
    "doubt": Old("uncertainty (fit) or ambiguous (render)"),
    "told": Old("reported", kinds=KINDS),
    "said": Old("output, PolicyOutput", kinds=KINDS),
    "seen": Old("observed, observation", ANSWERS, kinds=INTERFACE),
    "words": Old("summary_text", ("src/gradsim/report", "src/gradsim/cli"), kinds=("module", "class")),
    "film": Old("video", kinds=KINDS),
    "films": Old("videos", kinds=KINDS),
    "filmed": Old("recorded", kinds=KINDS),
    # render
    "mosaic": Old("single_layer"),
    "owner": Old("front_triangle", RENDER),
    "owners": Old("front_triangle", RENDER, kinds=KINDS),
    "advance": Old("project", RENDER),
    "retreat": Old("project_backward", RENDER),
    # scene, check, benchmarks
    "noun": Old("scene object", kinds=KINDS),
    "nouns": Old("scene objects", kinds=KINDS),
    "zoo": Old("gradient_problems", kinds=KINDS),
    "fact": Old("check, result of a check", whole=True),
    "both": Old("forward_backward", BENCHMARKS),
    "bars": Old("targets", BENCHMARKS),
}

# Words that have no place in prose either, with all their forms.
NEVER = {
    r"films?|filmed|filming": "video, recorded",
    r"(?<!-)march|marches|marched|marching": "rollout, simulate",  # but the compiler's -march
    r"nouns?": "scene object",
    r"zoos?": "gradient problems",
}

# Classes that once had several meanings: each has at most one definition in the package.
SEPARATED = ("Bar", "Driver", "Part", "Plan", "Problem", "Signal", "Stage")

# (file, old name) -> why it stands there. "*" stands for every name.
ALLOWED = {
    ("src/gradsim/fit/least_squares.py", "driver"): "Torch's name for a routine of LAPACK",
    ("src/gradsim/parallel.py", "driver"): "Ray's name for the process with the command",
    ("src/gradsim/render/mitsuba.py", "film"): "Mitsuba's name for the image of a sensor",
    ("src/gradsim/simulate/engine/structures.py", "tables"): "the Table structures of the native ForceArrays",
    ("src/gradsim/simulate/engine/world_rollout.py", "tables"): "the Table structures of the native ForceArrays",
    ("tests/test_vocabulary.py", "*"): "plants old names to test this script",
}

# ------------------------------------------------------------------------------------------------------------ reading

PLACES = ("src", "tests", "docs", "examples", "benchmarks", "README.md")
SUFFIXES = (".py", ".h", ".md", ".yaml", ".html", ".css")

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CPP_PROSE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
KEYS = {
    ".yaml": re.compile(r"^[\s-]*([A-Za-z_]\w*)\s*:", re.MULTILINE),
    ".html": re.compile(r'\b(?:class|id|for|name)="([^"]*)"'),
    ".css": re.compile(r"[.#]([A-Za-z][\w-]*)(?=[^{}]*\{)"),
}
FSTRING = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)  # since Python 3.12


class Name(NamedTuple):
    """An identifier and its line."""

    line: int
    kind: str
    text: str


class Finding(NamedTuple):
    """An old name or word, and what to write instead."""

    path: str
    line: int
    kind: str
    text: str
    write: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind} {self.text}: write {self.write}"


def python_names(source: str, first: int = 1) -> Iterator[Name]:
    """Yields the names that Python code defines, imports, passes or reads as attributes."""
    tree = ast.parse("\n" * (first - 1) + source)
    fields = {id(target) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for target in _fields(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield Name(node.lineno, "class", node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Name(node.lineno, "test" if node.name.startswith("test_") else "function", node.name)
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield Name(node.lineno, "argument", node.arg)
        elif isinstance(node, ast.Attribute):
            yield Name(node.end_lineno or node.lineno, "attribute", node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Name(node.lineno, "attribute" if id(node) in fields else "variable", node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _option(node.lineno, node.value)


def _fields(node: ast.ClassDef) -> Iterator[ast.expr]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign):
            yield statement.target
        elif isinstance(statement, ast.Assign):
            yield from statement.targets


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[Name]:
    if isinstance(node, ast.ImportFrom) and node.module:
        yield from (Name(node.lineno, "module", module) for module in node.module.split("."))
    for alias in node.names:
        kind = "module" if isinstance(node, ast.Import) else "function"
        yield from (Name(alias.lineno, kind, name) for name in alias.name.split("."))
        if alias.asname:
            yield Name(alias.lineno, "variable", alias.asname)


def _option(line: int, value: str) -> Iterator[Name]:
    """Yields a string that is itself a name: an option of the command line, a key, the name of a kernel."""
    text = value.lstrip("-").replace("-", "_")
    if IDENTIFIER.fullmatch(text):
        yield Name(line, "option", text)


def loose_names(code: str, first: int = 1) -> Iterator[Name]:
    """Yields the identifiers of C++ or of a fragment of code. The characters around one decide its kind."""
    for number, line in enumerate(code.split("\n"), first):
        for match in IDENTIFIER.finditer(line):
            before, after = line[: match.start()].rstrip(), line[match.end() :].lstrip()
            member = before.endswith((".", "->", "::"))
            kind = "function" if after.startswith("(") else "attribute" if member else "variable"
            yield Name(number, kind, match[0])


def prose(path: Path, source: str) -> str:
    """Returns a file's text with everything but its prose blanked: comments, strings, and the text of pages."""
    if path.suffix == ".py":
        return _python_prose(source)
    if path.suffix == ".h":
        return _only(source, [match.span() for match in CPP_PROSE.finditer(source)])
    return FENCE.sub(_fence_prose, source) if path.suffix == ".md" else source


def _fence_prose(block: re.Match[str]) -> str:
    if block[1] != "python":
        return block[0]
    return "\n" + _python_prose(block[2]) + "```"


def _python_prose(source: str) -> str:
    offsets = [0, *itertools.accumulate(len(line) for line in io.StringIO(source))]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    kinds = (tokenize.COMMENT, tokenize.STRING, FSTRING)
    places = [(token.start, token.end) for token in tokens if token.type in kinds]
    return _only(source, [(offsets[a[0] - 1] + a[1], offsets[b[0] - 1] + b[1]) for a, b in places])


def _only(source: str, spans: list[tuple[int, int]]) -> str:
    """Returns a text with everything outside the spans blanked."""
    ends = [0, *(end for _, end in spans)]
    pieces = [_blank(source[end:start]) + source[start:stop] for end, (start, stop) in zip(ends, spans, strict=False)]
    return "".join(pieces) + _blank(source[ends[-1] :])


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def code_spans(text: str) -> Iterator[Name]:
    """Yields the names in the `code` of prose."""
    for span in SPAN.finditer(text):
        line = 1 + text.count("\n", 0, span.start())
        yield from (Name(line, "option", option.replace("-", "_")) for option in OPTION.findall(span[1]))
        yield from loose_names(OPTION.sub("", span[1]), line)


def code_names(path: Path, source: str) -> Iterator[Name]:
    """Yields the names in the code of a file."""
    if path.suffix == ".py":
        yield from python_names(source)
    elif path.suffix == ".h":
        yield from loose_names(CPP_PROSE.sub(lambda match: _blank(match[0]), source))
    elif path.suffix == ".md":
        blocks = (block for block in FENCE.finditer(source) if block[1] == "python")
        yield from (n for b in blocks for n in python_names(b[2], 1 + source.count("\n", 0, b.start(2))))
    else:
        for match in KEYS[path.suffix].finditer(source):
            line = 1 + source.count("\n", 0, match.start(1))
            yield from (Name(line, "option", key.replace("-", "_")) for key in match[1].split())


# ----------------------------------------------------------------------------------------------------------- checking


@functools.cache
def snake(name: str) -> str:
    """Returns a name in snake case: `NodeRollout` and `_NODE_ROLLOUT` become `node_rollout`."""
    return "_".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)).lower()


def is_inside(path: str, places: tuple[str, ...]) -> bool:
    """Returns whether a path is one of some places or lies in one of them."""
    return any(path == place or path.startswith(place + "/") for place in places)


def is_allowed(path: str, old: str) -> bool:
    """Returns whether the file may use the old name."""
    return (path, old) in ALLOWED or (path, "*") in ALLOWED


@functools.cache
def rules_of(text: str) -> list[tuple[str, Old]]:
    """Returns the entries of the table that match a name in snake case, wherever it stands."""
    rules = OLD_NAMES.items()
    return [(old, rule) for old, rule in rules if (text == old if rule.whole else f"_{old}_" in f"_{text}_")]


def check_name(path: str, name: Name) -> Finding | None:
    """Returns the old name within a name of a file, or None."""
    text = snake(name.text)
    kind = "class" if re.match(r"_*[A-Z]\w*[a-z]", name.text) else name.kind
    for old, rule in rules_of(text):
        applies = kind in rule.kinds and (not rule.inside or is_inside(path, rule.inside))
        applies = applies and not is_inside(path, rule.outside)
        if applies and not any(good in text for good in rule.unless) and not is_allowed(path, old):
            return Finding(path, name.line, kind, name.text, rule.write)
    return None


def check_words(path: str, text: str) -> Iterator[Finding]:
    """Yields the words of a file's prose that are never fine."""
    for number, line in enumerate(text.split("\n"), 1):
        for words, write in NEVER.items():
            for match in re.finditer(rf"\b(?:{words})\b", line, re.IGNORECASE):
                if not is_allowed(path, match[0].lower()):
                    yield Finding(path, number, "word", match[0], write)


def check_file(root: Path, file: Path) -> list[Finding]:
    """Returns the old names and words of a file, its own name included, each once a line."""
    path, source = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
    modules = [*file.relative_to(root).parts[:-1], file.stem.removeprefix("test_")]
    text = prose(file, source)
    names = [*(Name(1, "module", module) for module in modules), *code_names(file, source), *code_spans(text)]
    found = [finding for name in names if (finding := check_name(path, name))]
    listed = {(finding.line, finding.text.lower()): finding for finding in reversed(found)}
    for finding in check_words(path, text):
        listed.setdefault((finding.line, finding.text.lower()), finding)
    return sorted(listed.values())


def check_classes(root: Path) -> Iterator[Finding]:
    """Yields the classes of SEPARATED that are defined in more than one module of the package."""
    definition = re.compile(rf"^class ({'|'.join(SEPARATED)})\b", re.MULTILINE)
    defined: dict[str, list[tuple[str, int]]] = {}
    for file in sorted((root / "src").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        for match in definition.finditer(source):
            line = 1 + source.count("\n", 0, match.start())
            defined.setdefault(match[1], []).append((file.relative_to(root).as_posix(), line))
    for name, places in defined.items():
        for path, line in places if len(places) > 1 else []:
            yield Finding(path, line, "class", name, f"a distinct name: {len(places)} modules define {name}")


def check(root: Path) -> list[Finding]:
    """Returns the old names and words of a repository."""
    trees = [root / place for place in PLACES]
    files = [file for tree in trees for file in ([tree] if tree.is_file() else sorted(tree.rglob("*")))]
    texts = [file for file in files if file.suffix in SUFFIXES and file.is_file()]
    return [*(finding for file in texts for finding in check_file(root, file)), *check_classes(root)]


def main(arguments: list[str]) -> int:
    """Prints the old names and words of a repository. Returns 1 if there are any, else 0."""
    root = Path(arguments[0]) if arguments else Path(__file__).parents[1]
    findings = check(root)
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} old names or words; the table and its exceptions are in {Path(__file__).name}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
