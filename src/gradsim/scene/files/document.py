"""YAML documents: parsing with line numbers, and writing.

Plain scalars follow the YAML 1.2 core schema, unlike in PyYAML: 1e5 is a number, `on` and `no` are strings. Size and
depth are bounded, aliases included, so that a small file cannot expand to a large one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml
from yaml import composer, constructor, emitter, parser, reader, representer, resolver, scanner, serializer

Location = tuple["str | int", ...]  # keys and indices from the root of a document

YAML_TAG = "tag:yaml.org,2002:"
WIDTH = 120
MAX_LENGTH = 64_000_000  # of a text [characters]; long arrays belong in .npy files
MAX_BYTES = 4  # of a character in UTF-8
MAX_DEPTH = 64  # of nested lists and mappings
MAX_VALUES = 5_000_000  # of a document in which every alias is replaced by what it stands for

# Tags that values may have, explicitly or by their form; PyYAML also knows timestamps, binaries, sets and others.
TAGS = ("null", "bool", "int", "float", "str", "seq", "map")

# Plain scalars by tag: regular expression, and possible first characters.
PLAIN_SCALARS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": (r"<<", "<"),
}


class _CoreResolver(resolver.BaseResolver):
    """Resolves the types of plain scalars by the YAML 1.2 core schema."""


for _name, (_pattern, _first) in PLAIN_SCALARS.items():
    _CoreResolver.add_implicit_resolver(f"{YAML_TAG}{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))


class _Loader(
    reader.Reader, scanner.Scanner, parser.Parser, composer.Composer, constructor.SafeConstructor, _CoreResolver
):
    """Safe loader that rejects duplicate keys, deep nesting, and aliases that contain themselves."""

    yaml_constructors: ClassVar[Any] = {
        None: constructor.SafeConstructor.construct_undefined,
        **{tag: constructor.SafeConstructor.yaml_constructors[tag] for tag in (f"{YAML_TAG}{name}" for name in TAGS)},
    }

    def __init__(self, text: str) -> None:
        reader.Reader.__init__(self, text)
        scanner.Scanner.__init__(self)
        parser.Parser.__init__(self)
        composer.Composer.__init__(self)
        constructor.SafeConstructor.__init__(self)
        _CoreResolver.__init__(self)
        self.depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.depth >= MAX_DEPTH:
            problem = f"lists and mappings are nested more than {MAX_DEPTH} deep"
            raise composer.ComposerError(None, None, problem, self.peek_event().start_mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise composer.ComposerError(None, None, f"{key.value!r} is given twice", key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
        return node

    def construct_number(self, node: Any) -> int | float:
        text = self.construct_scalar(node)
        try:
            return int(text) if node.tag.endswith(":int") else float(text.replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            raise constructor.ConstructorError(None, None, f"{text[:60]!r} is not a number", node.start_mark) from None

    def construct_truth(self, node: Any) -> bool:
        text = self.construct_scalar(node)
        if text.lower() not in ("true", "false"):
            problem = f"{text[:60]!r} is not true or false"
            raise constructor.ConstructorError(None, None, problem, node.start_mark)
        return bool(text.lower() == "true")


for _name in ("int", "float"):  # PyYAML's constructors read 010 as 8 and 1:30 as 90
    _Loader.add_constructor(f"{YAML_TAG}{_name}", _Loader.construct_number)
_Loader.add_constructor(f"{YAML_TAG}bool", _Loader.construct_truth)


class _Dumper(emitter.Emitter, serializer.Serializer, representer.SafeRepresenter, _CoreResolver):
    """Indents lists below their key, writes mappings and lists of scalars on one line, and has aliases only for
    unknowns that are used in several places."""

    ANCHOR_TEMPLATE = "unknown%d"

    def __init__(self, stream: Any) -> None:
        emitter.Emitter.__init__(self, stream, width=WIDTH, allow_unicode=True)
        serializer.Serializer.__init__(self)
        representer.SafeRepresenter.__init__(self, default_flow_style=None, sort_keys=False)
        _CoreResolver.__init__(self)

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return not (isinstance(data, dict) and "unknown" in data)


@dataclass(frozen=True, eq=False)
class Document:
    """Parsed data, and the YAML nodes with their line numbers."""

    data: Any
    node: Any

    def resolve(self, location: Iterable[str | int]) -> Location:
        """Returns the keys and indices of a location that exist in the document.

        Pydantic adds others to its locations, such as the tag of a union.
        """
        return tuple(step for step, _ in self._walk(location))

    def line(self, location: Iterable[str | int]) -> int:
        """Returns the line of a location, counted from 1; for a value of a mapping, the line of its key."""
        line = self.node.start_mark.line
        for _, mark in self._walk(location):
            line = mark.line
        return int(line) + 1

    def at(self, location: Iterable[str | int]) -> Any:
        """Returns the data at a location."""
        value = self.data
        for step in self.resolve(location):
            value = value[step]
        return value

    def _walk(self, location: Iterable[str | int]) -> Iterable[tuple[str | int, Any]]:
        node = self.node
        for step in location:
            if isinstance(node, yaml.MappingNode):
                matches = [(key, value) for key, value in node.value if key.value == step]
                if matches:
                    key, node = matches[-1]
                    yield step, key.start_mark
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                yield step, node.start_mark


def read_yaml(file: Path) -> Document | None:
    """Parses a file; returns None if it is empty.

    Raises:
        yaml.YAMLError: The content is not valid YAML, or too large.
        UnicodeDecodeError: It is not text.
    """
    size = file.stat().st_size
    if size > MAX_LENGTH * MAX_BYTES:
        raise yaml.YAMLError(f"{size} bytes, of at most {MAX_LENGTH * MAX_BYTES}: store long arrays in .npy files")
    return parse_yaml(file.read_text(encoding="utf-8"))


def parse_yaml(text: str) -> Document | None:
    """Parses a document; returns None if it is empty.

    Raises:
        yaml.YAMLError: The text is not valid YAML, or too large.
    """
    if len(text) > MAX_LENGTH:
        raise yaml.YAMLError(f"{len(text)} characters, of at most {MAX_LENGTH}: store long arrays in .npy files")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_expansion(node)
        return Document(loader.construct_document(node), node)
    finally:
        loader.dispose()


def _check_expansion(root: Any) -> None:
    """Raises ComposerError if aliases contain themselves or expand a document to too many values."""
    counts: dict[int, int] = {}  # of values below each node, by its identity
    open_nodes: set[int] = set()

    def count(node: Any) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in open_nodes:
            raise composer.ComposerError(None, None, "an alias stands inside of its own anchor", node.start_mark)
        if id(node) not in counts:
            open_nodes.add(id(node))
            children = (part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,)))
            counts[id(node)] = 1 + sum(map(count, children))
            open_nodes.remove(id(node))
        if counts[id(node)] > MAX_VALUES:
            problem = f"its aliases expand to more than {MAX_VALUES} values"
            raise composer.ComposerError(None, None, problem, node.start_mark)
        return counts[id(node)]

    count(root)


def dump_yaml(data: Any) -> str:
    """Returns the YAML text of mappings, lists and scalars."""
    return str(yaml.dump(data, Dumper=lambda stream, **_: _Dumper(stream)))
