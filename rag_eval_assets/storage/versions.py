"""Data versions from content, work keys for rows, code versions from syntax trees.

What belongs here: the hashes that say whether something changed, and their parts so that a person is told what did. What does
not: the comparison of one file's footer with the present (`staleness`).
"""

from __future__ import annotations

import ast
import copy
import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.storage.state import read_json, write_cache
from rag_eval_assets.tables import Table

PACKAGES = ("ingestion", "rag_eval_assets")
ASSET_MODULES = "rag_eval_assets.assets"
NOT_CODE = (
    "rag_eval_assets.tables",
    "rag_eval_assets.settings",
    "rag_eval_assets.partitions",
    "rag_eval_assets.graph",
    "rag_eval_assets.storage",
    "rag_eval_assets.resources.stores",
    "rag_eval_assets.resources.responses",
    "rag_eval_assets.report",
)
"""Modules that move or draw rows without shaping them; what they contribute (schema, settings, parameters) is hashed as values."""


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; the one text form under which values are hashed or compared."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(*parts: Any) -> str:
    """SHA-256 of the canonical JSON of `parts`, 32 hex digits."""
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:32]


work_key = digest


def _feed(sink: Any, column: pa.Array) -> None:
    """Feed one array to `sink` so that only values, nulls and lengths count, never chunking, offsets or padding."""
    kind = column.type
    sink.update(np.asarray(pc.is_valid(column).cast(pa.uint8())).tobytes())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sink.update(np.asarray(pc.fill_null(pc.list_value_length(column).cast(pa.int64()), 0)).tobytes())
        _feed(sink, column.flatten())
    elif pa.types.is_struct(kind):
        for field in column.flatten():
            _feed(sink, field)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        filled = pc.fill_null(column.cast(pa.large_binary()), b"")
        sink.update(np.asarray(pc.binary_length(filled).cast(pa.int64())).tobytes())
        offsets = np.frombuffer(filled.buffers()[1], np.int64)[filled.offset : filled.offset + len(filled) + 1]
        if len(filled) and offsets[-1] > offsets[0]:
            sink.update(memoryview(filled.buffers()[2])[offsets[0] : offsets[-1]])
    elif pa.types.is_boolean(kind):
        sink.update(np.asarray(pc.fill_null(column, False).cast(pa.uint8())).tobytes())
    elif pa.types.is_floating(kind):
        sink.update((np.asarray(pc.fill_null(column, 0.0)) + 0.0).tobytes())
    elif pa.types.is_integer(kind):
        sink.update(np.asarray(pc.fill_null(column, 0)).tobytes())
    else:
        raise TypeError(f"no canonical form for column type {kind}")


def _type_name(kind: pa.DataType) -> str:
    """Name of a type without the inner field names that a file may rename."""
    if pa.types.is_list(kind):
        return f"list<{_type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {_type_name(f.type)}' for f in kind)}>"
    return str(kind)


def data_version(table: pa.Table, contract: Table) -> str:
    """Hash of the rows in canonical order without volatile columns and vectors, 32 hex digits.

    `table` is in the contract's key order. Equal content gives an equal version whatever the run, the machine or the file layout.
    """
    sink = hashlib.sha256()
    for name in contract.versioned_columns:
        column = table.column(name).combine_chunks()
        sink.update(f"{name}:{_type_name(column.type)}:{len(column)};".encode())
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        _feed(sink, column)
    return sink.hexdigest()[:32]


@cache
def library_version(name: str) -> str:
    """Installed version of a distribution; `absent` where an optional one is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and every statement below it; expressions, which hold no import and no docstring, are not walked."""
    yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        below = getattr(node, block, ())
        for child in below if isinstance(below, list) else ():
            yield from _statements(child)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in _statements(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                node.body = node.body[1:]
    return tree


def _tree_hash(node: ast.AST) -> str:
    return hashlib.sha256(ast.dump(node, include_attributes=False).encode()).hexdigest()[:16]


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.Module:
    """The tree of one source text without docstrings; a warm process parses a text once. Nobody changes what this returns."""
    return _without_docstrings(ast.parse(text))


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


class SourceTree:
    """The project's own modules as syntax trees: which module imports which, and a hash of each without comments and docstrings.

    `overrides` maps a module name to source text that stands for the file's. `memory` is a cache file: where no source text
    and no Python version changed since it was written, nothing is parsed.
    """

    def __init__(self, root: Path | None = None, overrides: Mapping[str, str] | None = None, memory: Path | None = None) -> None:
        self.root = root or Path(__file__).resolve().parents[2]
        self.overrides = dict(overrides or {})
        self.memory = memory
        self._texts: dict[str, str | None] = {}
        self._hashes: dict[str, str] = {}
        self._imports: dict[str, tuple[str, ...]] = {}
        self._functions: dict[str, tuple[str, list[str]]] = {}
        self._fingerprint = ""
        self._remembered = 0
        if memory is not None:
            self._recall(memory)

    def _facts(self) -> int:
        return len(self._hashes) + len(self._imports) + len(self._functions)

    def _recall(self, memory: Path) -> None:
        for path in sorted(p for package in PACKAGES for p in (self.root / package).rglob("*.py")):
            name = ".".join(path.relative_to(self.root).with_suffix("").parts).removesuffix(".__init__")
            self._texts[name] = self.overrides.get(name, path.read_text(encoding="utf-8"))
        self._fingerprint = digest(sys.version, sorted(self._texts.items()), sorted(self.overrides.items()))
        found = read_json(memory)
        if found.get("source") == self._fingerprint:
            self._hashes = found["modules"]
            self._imports = {name: tuple(names) for name, names in found["imports"].items()}
            self._functions = {name: (code, reached) for name, (code, reached) in found["functions"].items()}
        self._remembered = self._facts()

    def remember(self) -> None:
        """Write what was learnt to the memory, if there is one and anything was."""
        if self.memory is not None and self._facts() != self._remembered:
            facts = {"modules": self._hashes, "imports": self._imports, "functions": self._functions}
            write_cache(self.memory, {"source": self._fingerprint, **facts})
            self._remembered = self._facts()

    def _text(self, module: str) -> str | None:
        """Source text of a module of the project; None where there is no such module."""
        if module not in self._texts:
            base = self.root.joinpath(*module.split("."))
            places = [p for p in (base.with_suffix(".py"), base / "__init__.py") if module.split(".")[0] in PACKAGES and p.is_file()]
            self._texts[module] = self.overrides.get(module, places[0].read_text(encoding="utf-8") if places else None)
        return self._texts[module]

    def _tree(self, module: str) -> ast.Module:
        text = self._text(module)
        if text is None:
            raise LookupError(f"no module {module!r} in the project")
        return _parsed(text)

    def module_hash(self, module: str) -> str:
        if module not in self._hashes:
            self._hashes[module] = _tree_hash(self._tree(module))
        return self._hashes[module]

    def _named(self, node: ast.AST, module: str) -> Iterable[str]:
        """Project modules that one import statement names."""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: -node.level] if self._is_module(module) else module.split(".")
                base = ".".join([*package, *([node.module] if node.module else [])])
            for alias in node.names:
                below = f"{base}.{alias.name}"
                yield below if self._text(below) is not None else base

    def _is_module(self, module: str) -> bool:
        return self.root.joinpath(*module.split(".")).with_suffix(".py").is_file()

    def imports(self, module: str) -> tuple[str, ...]:
        """Project modules that `module` imports anywhere, inside functions too."""
        if module not in self._imports:
            found = {name for node in _statements(self._tree(module)) for name in self._named(node, module)}
            self._imports[module] = tuple(sorted(n for n in found if self._text(n) is not None))
        return self._imports[module]

    def closure(self, reached: Iterable[str], named: Iterable[str] = ()) -> dict[str, str]:
        """Every code module reached, with its hash. Modules of NOT_CODE are left out, save those `named` and their packages' own."""
        named = sorted(set(named))
        left_out = [n for n in NOT_CODE if not any(_within(module, n) for module in named)]
        found: dict[str, str] = {}
        todo = sorted({*reached, *named})
        while todo:
            module = todo.pop()
            if module in found or self._text(module) is None or any(_within(module, n) for n in left_out):
                continue
            found[module] = self.module_hash(module)
            todo.extend(self.imports(module))
        return dict(sorted(found.items()))

    def function(self, module: str, name: str) -> tuple[str, list[str]]:
        """Hash of one function of an asset module with the helpers it uses, and the project modules these reach.

        Helpers are followed by name, through other asset modules too: a neighbouring asset's body is no part of this one.
        """
        if f"{module}.{name}" not in self._functions:
            self._functions[f"{module}.{name}"] = self._function(module, name)
        return self._functions[f"{module}.{name}"]

    def _function(self, module: str, name: str) -> tuple[str, list[str]]:
        used: dict[str, str] = {}
        reached: set[str] = set()
        todo = [(module, name)]
        while todo:
            place, current = todo.pop()
            if f"{place}.{current}" in used:
                continue
            local, aliases = self._names(place)
            if current not in local:
                raise LookupError(f"no {current!r} in module {place!r}")
            bare = self._without_decorators(local[current])
            used[f"{place}.{current}"] = _tree_hash(bare)
            nodes = list(ast.walk(bare))
            bound = {n.arg for n in nodes if isinstance(n, ast.arg)} | {
                n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            for node in nodes:
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    reached.update(self._named(node, place))
                elif isinstance(node, ast.Name) and (node.id not in bound or node.id == current):
                    for target, original in aliases.get(node.id, ()):
                        if _within(target, ASSET_MODULES) and original is not None:
                            todo.append((target, original))
                        else:
                            reached.add(target)
                    if node.id in local:
                        todo.append((place, node.id))
        return digest(sorted(used.items())), sorted(n for n in reached if self._text(n) is not None)

    def _names(self, module: str) -> tuple[dict[str, ast.stmt], dict[str, list[tuple[str, str | None]]]]:
        """What a module defines at its top, and what it imports there: local name -> (module, name in it or None for a module)."""
        local: dict[str, ast.stmt] = {}
        aliases: dict[str, list[tuple[str, str | None]]] = {}
        for node in self._tree(module).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias, target in zip(node.names, self._named(node, module), strict=True):
                    inside = isinstance(node, ast.ImportFrom) and not target.endswith(f".{alias.name}")
                    aliases.setdefault((alias.asname or alias.name).split(".")[0], []).append((target, alias.name if inside else None))
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                local[node.name] = node
            elif isinstance(node, ast.Assign):
                local.update({t.id: node for t in node.targets if isinstance(t, ast.Name)})
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                local[node.target.id] = node
        return local, aliases

    @staticmethod
    def _without_decorators(node: ast.stmt) -> ast.AST:
        """A body does not depend on how it is declared; what a declaration adds is hashed as values."""
        if not isinstance(node, ast.FunctionDef):
            return node
        bare = copy.copy(node)
        bare.decorator_list = []
        return bare


@dataclass(frozen=True)
class CodeVersion:
    """A code version with its parts, so that a difference can be named."""

    schema: str
    body: str
    modules: Mapping[str, str]
    settings: Mapping[str, Any]
    libraries: Mapping[str, str]

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "schema": self.schema,
            "body": self.body,
            "modules": dict(self.modules),
            "settings": dict(self.settings),
            "libraries": dict(self.libraries),
        }

    @property
    def hash(self) -> str:
        return digest(self.facts)


def schema_hash(contract: Table) -> str:
    """Hash of names, types, nullability, roles and key; descriptions may change freely."""
    return digest(
        [[f.name, _type_name(f.type), f.nullable, contract.role(f.name)] for f in contract.schema], list(contract.key), contract.family
    )


def code_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between the code facts of a footer and the present, one short sentence each."""
    found: list[str] = []
    if old.get("schema") != new["schema"]:
        found.append("code: the table's schema changed")
    if old.get("body") != new["body"]:
        found.append("code: the asset's body changed")
    for part, label in (("modules", "code"), ("settings", "setting"), ("libraries", "library")):
        before, after = old.get(part, {}), new[part]
        for name in sorted(set(before) | set(after)):
            # A footer is JSON: what is a tuple here is a list there.
            if canonical_json(before.get(name)) == canonical_json(after.get(name)):
                continue
            if part == "modules":
                what = "changed" if name in before and name in after else ("is reached now" if name in after else "is reached no more")
                found.append(f"{label}: {name} {what}")
            else:
                found.append(f"{label}: {name} {canonical_json(before.get(name))} -> {canonical_json(after.get(name))}")
    return found
