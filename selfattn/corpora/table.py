"""Reads a table of queries and their intents: a CSV file with the columns `text,category`."""

import csv
import io
from collections.abc import Collection, Iterator
from pathlib import Path

Row = tuple[str, str]

COLUMNS = ["text", "category"]


def read(file: Path, intents: Collection[str]) -> list[Row]:
    """Read every row of a table; one wrong row is an error, and none is dropped.

    Args:
        file: a CSV file in UTF-8. Quoted fields may hold line breaks, which are kept as they are.
        intents: the values that the column `category` may have.

    Returns:
        Pairs (text, intent) in file order.

    Raises:
        ValueError: the file is not UTF-8 or not CSV, has other columns, or has a row with an
            empty text or an unknown intent. The message names the file and the row or line.
        OSError: the file cannot be read.
    """
    records = _records(file)
    _, header = next(records, (1, []))
    if header != COLUMNS:
        raise ValueError(
            f"{file}, line 1: expected the columns {_quoted(COLUMNS)}, "
            f"found {_quoted(header) or 'none'}"
        )
    rows = []
    for number, (line, fields) in enumerate(records, start=1):
        if fault := _fault(fields, intents):
            raise ValueError(f"{file}, row {number} (line {line}): {fault}")
        text, intent = fields
        rows.append((text, intent))
    return rows


def _records(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line it begins on: a quoted line break makes the two differ."""
    # newline="" leaves line breaks to the csv module; strict makes a missing quote an error.
    reader = csv.reader(io.StringIO(_decoded(file), newline=""), strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{file}, line {line}: expected a record in CSV, found one that cannot be read: {error}"
        ) from error


def _decoded(file: Path) -> str:
    data = file.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{file}, line {line}: expected UTF-8, found the byte 0x{data[error.start]:02x} "
            f"({error.reason}); save the file as UTF-8"
        ) from error


def _fault(fields: list[str], intents: Collection[str]) -> str | None:
    """Say what is wrong with a row, if anything is."""
    if len(fields) != len(COLUMNS):
        return f"expected {len(COLUMNS)} fields, found {len(fields)}: {_quoted(fields) or 'none'}"
    text, intent = fields
    if not text.strip():
        return f"expected a query, found the empty text {text!r}"
    if intent not in intents:
        return f"unknown intent {intent!r}; expected one of the {len(intents)} in intents.txt"
    return None


def _quoted(fields: list[str]) -> str:
    return ", ".join(map(repr, fields))
