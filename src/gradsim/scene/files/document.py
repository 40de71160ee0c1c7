"""YAML as it stands in a file: its data, the line of every part, and how it is written.

Words and numbers are read as YAML 1.2 reads them, unlike PyYAML itself: 1e5 is a number, `on` and `no` are words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml
from yaml import composer, constructor, emitter, parser, reader, representer, resolver, scanner, serializer

Place = tuple["str | int", ...]  # keys and numbers that lead to a part of a document

WIDTH = 120

# What a plain word may mean, and the letters it may start with.
WORDS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": (r"<<", "<"),
}


class _Words(resolver.BaseResolver):
    """What plain words mean."""


for _name, (_pattern, _first) in WORDS.items():
    _Words.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))


class _Loader(reader.Reader, scanner.Scanner, parser.Parser, composer.Composer, constructor.SafeConstructor, _Words):
    """A safe loader that refuses a key given twice."""

    def __init__(self, text: str) -> None:
        reader.Reader.__init__(self, text)
        scanner.Scanner.__init__(self)
        parser.Parser.__init__(self)
        composer.Composer.__init__(self)
        constructor.SafeConstructor.__init__(self)
        _Words.__init__(self)

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
            raise constructor.ConstructorError(None, None, f"{text[:60]!r} is no number", node.start_mark) from None


for _name in ("int", "float"):  # PyYAML's own would read 010 as eight and 1:30 as ninety
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _Loader.construct_number)


class _Dumper(emitter.Emitter, serializer.Serializer, representer.SafeRepresenter, _Words):
    """Lists stand indented below their key; mappings and lists of plain values on one line."""

    def __init__(self, stream: Any) -> None:
        emitter.Emitter.__init__(self, stream, width=WIDTH, allow_unicode=True)
        serializer.Serializer.__init__(self)
        representer.SafeRepresenter.__init__(self, default_flow_style=None, sort_keys=False)
        _Words.__init__(self)

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Document:
    """The data of a file, and the nodes it was made from."""

    data: Any
    node: Any

    def found(self, place: Iterable[str | int]) -> Place:
        """Those steps of a place that the document has; others, such as the name of an alternative, are left out."""
        return tuple(step for step, _ in self._walk(place))

    def line(self, place: Iterable[str | int]) -> int:
        """Line of a part, counted from 1: that of its key, if it has one."""
        line = self.node.start_mark.line
        for _, mark in self._walk(place):
            line = mark.line
        return int(line) + 1

    def at(self, place: Iterable[str | int]) -> Any:
        """Data at a place."""
        value = self.data
        for step in self.found(place):
            value = value[step]
        return value

    def _walk(self, place: Iterable[str | int]) -> Iterable[tuple[str | int, Any]]:
        node = self.node
        for step in place:
            if isinstance(node, yaml.MappingNode):
                near = [(key, value) for key, value in node.value if key.value == step]
                if near:
                    key, node = near[-1]
                    yield step, key.start_mark
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                yield step, node.start_mark


def parsed(text: str) -> Document | None:
    """A document from its text; None if there is nothing in it.

    Raises:
        yaml.YAMLError: The text is no YAML.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else Document(loader.construct_document(node), node)
    finally:
        loader.dispose()


def written(data: Any) -> str:
    """The text of plain data."""
    return str(yaml.dump(data, Dumper=lambda stream, **_: _Dumper(stream)))
