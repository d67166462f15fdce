"""One table, one Parquet file: the contract enforced both ways, and the footer.

What belongs here: bytes and schema. What does not: where bytes are kept (`files`), which files there should be (`catalogue`), Dagster
(`io_manager`).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_eval_assets.settings.base import file_name_problem
from rag_eval_assets.storage.versions import data_version, digest
from rag_eval_assets.tables import Table

FOOTER_KEY = b"rag_eval"
FORMAT = 1
_SAFE_KEY = re.compile(r"[a-z0-9][a-z0-9_.-]{0,127}")


class ContractError(ValueError):
    """Rows that break the table's contract; names asset, column, expected and found."""


class TornFileError(ValueError):
    """A file that is not a whole table of ours; names the file and what is wrong."""


@dataclass(frozen=True)
class Footer:
    """What a table file says of itself: enough to explain it without Dagster."""

    asset: str
    partition: str | None
    run_id: str
    code_version: str
    data_version: str
    rows: int
    computed: int
    code: Mapping[str, Any]
    inputs: Mapping[str, str]
    columns: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        facts = {"format": FORMAT, **{k: (dict(v) if isinstance(v, Mapping) else v) for k, v in self.__dict__.items()}}
        return {**facts, "facts_sha256": digest(facts)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Footer:
        facts = {k: v for k, v in raw.items() if k != "facts_sha256"}
        if digest(facts) != raw.get("facts_sha256") or facts.pop("format", None) != FORMAT:
            raise TornFileError("the footer does not match its own checksum")
        return cls(**facts)


def check_partition_key(key: str) -> str:
    """`key` itself when it is safe as a file name everywhere; ValueError otherwise (no traversal, no reserved characters or names)."""
    if not _SAFE_KEY.fullmatch(key):
        raise ValueError(f"partition key {key!r}: use lower case letters, digits, '.', '_' and '-', at most 128")
    if problem := file_name_problem(key):
        raise ValueError(f"partition key {key!r} {problem}")
    return key


def to_table(rows: Sequence[Mapping[str, Any]] | pa.Table, contract: Table) -> pa.Table:
    """Rows as a table in the contract's column order. Unknown or absent columns raise ContractError."""
    if isinstance(rows, pa.Table):
        return rows.select(contract.columns) if set(rows.column_names) == set(contract.columns) else rows
    wanted = set(contract.columns)
    for row in rows:
        if row.keys() != wanted:
            extra, absent = sorted(row.keys() - wanted), sorted(wanted - row.keys())
            raise ContractError(f"{contract.name}: row {_key_of(row, contract)} has unknown columns {extra} and lacks {absent}")
    columns = []
    for f in contract.schema:
        try:
            columns.append(pa.array([row[f.name] for row in rows], f.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ContractError(f"{contract.name}.{f.name}: expected {f.type}, found {error}") from error
    return pa.table(columns, schema=bare_schema(contract))


def _key_of(row: Mapping[str, Any], contract: Table) -> str:
    return ", ".join(f"{k}={row.get(k)!r}" for k in contract.key)


def bare_schema(contract: Table) -> pa.Schema:
    """The contract's schema without descriptions; those stand in the footer, under its checksum."""
    return pa.schema([pa.field(f.name, f.type, f.nullable) for f in contract.schema])


def enforce(table: pa.Table, contract: Table) -> pa.Table:
    """`table` in key order, checked: schema, nulls, finite numbers, unique key. Raises ContractError."""
    expected = bare_schema(contract)
    found = {f.name: f.type for f in table.schema}
    if table.column_names != expected.names:
        raise ContractError(f"{contract.name}: expected columns {expected.names}, found {table.column_names}")
    for f in expected:
        column = table.column(f.name)
        if column.type != f.type:
            raise ContractError(f"{contract.name}.{f.name}: expected {f.type}, found {found[f.name]}")
        if not f.nullable and column.null_count:
            raise ContractError(f"{contract.name}.{f.name}: expected no nulls, found {column.null_count}")
        if pa.types.is_floating(f.type) and pc.all(pc.is_finite(column)).as_py() not in (True, None):
            raise ContractError(f"{contract.name}.{f.name}: expected finite numbers, found NaN or infinity")
    table = table.cast(expected)
    ordered = table.sort_by([(k, "ascending") for k in contract.key]) if table.num_rows else table
    keys = ordered.select(list(contract.key))
    if keys.group_by(list(contract.key)).aggregate([]).num_rows != table.num_rows:
        counted = keys.group_by(list(contract.key)).aggregate([([], "count_all")])
        worst = counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, 1).to_pylist()[0]
        raise ContractError(f"{contract.name}: key {_key_of(worst, contract)} stands {worst['count_all']} times, expected once")
    return ordered


def encode(table: pa.Table, footer: Footer) -> bytes:
    """The file's bytes: zstd, page checksums, no statistics (nothing unchecked may steer a reader)."""
    sink = io.BytesIO()
    schema = table.schema.with_metadata({FOOTER_KEY: json.dumps(footer.to_json(), sort_keys=True).encode()})
    with pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True, write_statistics=False, store_schema=True) as writer:
        writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=65_536)
    return sink.getvalue()


def footer_bytes(end: bytes) -> int | None:
    """How many bytes from its end a file's Parquet metadata takes, told by its last eight; None where those are not Parquet's."""
    return int.from_bytes(end[-8:-4], "little") + 8 if end[-4:] == b"PAR1" else None


def _on_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def read_footer(data: bytes) -> Footer:
    """The footer alone, from a file's bytes or its last `footer_bytes`. Raises TornFileError."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
        return Footer.from_json(json.loads(metadata[FOOTER_KEY]))
    except TornFileError:
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise TornFileError(f"no readable footer ({_on_one_line(error)})") from error


def check_place(footer: Footer, contract: Table, partition: str | None) -> Footer:
    """`footer` itself where it is of this asset partition. Raises TornFileError."""
    if (footer.asset, footer.partition) != (contract.name, partition):
        raise TornFileError(f"the file is {footer.asset}[{footer.partition}], not {contract.name}[{partition}]")
    return footer


def decode(data: bytes, contract: Table, columns: Iterable[str] | None = None) -> tuple[pa.Table, Footer]:
    """Table and footer of a file's bytes, page checksums verified, schema enforced. Raises TornFileError, ContractError."""
    footer = read_footer(data)
    chosen = None if columns is None else list(columns)
    try:
        # Three times as cheap for a small file as read_table, which makes a data set of it first.
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            table = file.read(chosen or None, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TornFileError(f"pages do not match their checksums ({_on_one_line(error)})") from error
    if chosen:
        if absent := sorted(set(chosen) - set(table.column_names)):
            raise ContractError(f"{contract.name}: expected columns {chosen}, found none named {', '.join(absent)}")
        table = table.select(chosen)
    wanted = bare_schema(contract)
    for f in table.schema:
        expected = wanted.field(f.name) if f.name in wanted.names else None
        if expected is None or expected.type != f.type:
            raise ContractError(f"{contract.name}.{f.name}: expected {expected.type if expected else 'no such column'}, found {f.type}")
    if columns is None and table.column_names != wanted.names:
        raise ContractError(f"{contract.name}: expected columns {wanted.names}, found {table.column_names}")
    return table.replace_schema_metadata(None), footer


def verify(data: bytes, contract: Table, partition: str | None) -> Footer:
    """Read everything and recompute the data version. Raises TornFileError or ContractError with what is wrong."""
    table, footer = decode(data, contract)
    check_place(footer, contract, partition)
    if footer.rows != table.num_rows or data_version(table, contract) != footer.data_version:
        raise TornFileError("the rows do not give the data version that the footer states")
    return footer
