"""YAML documents: parsing with line numbers, and writing.

Plain scalars follow the YAML 1.2 core schema, unlike in PyYAML: 1e5 is a number, `on` and `no` are strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml
from yaml import composer, constructor, emitter, parser, reader, representer, resolver, scanner, serializer

Location = tuple["str | int", ...]  # keys and indices from the root of a document

WIDTH = 120

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
    _CoreResolver.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))


class _Loader(
    reader.Reader, scanner.Scanner, parser.Parser, composer.Composer, constructor.SafeConstructor, _CoreResolver
):
    """Safe loader that rejects duplicate keys."""

    def __init__(self, text: str) -> None:
        reader.Reader.__init__(self, text)
        scanner.Scanner.__init__(self)
        parser.Parser.__init__(self)
        composer.Composer.__init__(self)
        constructor.SafeConstructor.__init__(self)
        _CoreResolver.__init__(self)

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


for _name in ("int", "float"):  # PyYAML's constructors read 010 as 8 and 1:30 as 90
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _Loader.construct_number)


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


def parse_yaml(text: str) -> Document | None:
    """Parses a document; returns None if it is empty.

    Raises:
        yaml.YAMLError: The text is not valid YAML.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else Document(loader.construct_document(node), node)
    finally:
        loader.dispose()


def dump_yaml(data: Any) -> str:
    """Returns the YAML text of mappings, lists and scalars."""
    return str(yaml.dump(data, Dumper=lambda stream, **_: _Dumper(stream)))
