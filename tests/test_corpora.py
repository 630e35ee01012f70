"""Finding, reading and refusing the two corpora."""

import contextlib
import csv
import hashlib
import io
import re
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn import corpora
from selfattn.corpora import banking77, table

TWO = ["card_arrival", "lost_or_stolen_card"]


def write(file: Path, text: str) -> Path:
    file.write_bytes(text.encode())
    return file


def refusal(file: Path) -> str:
    """The message with which the table reader refuses a file."""
    with pytest.raises(ValueError, match=re.escape(f"{file}, ")) as error:
        table.read(file, TWO)
    return str(error.value)


# Tables


def test_quoted_line_breaks_quotes_and_crlf_are_read_as_published(tmp_path: Path) -> None:
    file = write(
        tmp_path / "t.csv",
        'text,category\r\n"\nIs ""it"",\r\nlost?",card_arrival\r\nWhere?,lost_or_stolen_card\r\n',
    )
    assert table.read(file, TWO) == [
        ('\nIs "it",\r\nlost?', "card_arrival"),
        ("Where?", "lost_or_stolen_card"),
    ]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file that every example of a property test overwrites."""
    return tmp_path_factory.mktemp("tables") / "t.csv"


queries = st.text(st.sampled_from('a\r\n",; é\x00')) | st.text()
pairs = st.lists(st.tuples(queries.filter(str.strip), st.sampled_from(TWO)))


@given(rows=pairs)
def test_every_table_survives_a_round_trip(scratch: Path, rows: list[table.Row]) -> None:
    with scratch.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "category"), *rows])
    assert table.read(scratch, TWO) == rows


@given(before=pairs, after=pairs, blank=st.text(" \t\r\n"))
def test_an_empty_text_is_found_wherever_it_stands(
    scratch: Path, before: list[table.Row], after: list[table.Row], blank: str
) -> None:
    with scratch.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("text", "category"), *before, (blank, TWO[0]), *after])
    message = refusal(scratch)
    assert f", row {len(before) + 1} (" in message
    assert f"found the empty text {blank!r}" in message


@given(rows=pairs, cut=st.integers(min_value=0))
def test_a_truncated_table_is_refused_or_ends_early(
    scratch: Path, rows: list[table.Row], cut: int
) -> None:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("text", "category"), *rows])
    whole = buffer.getvalue().encode()
    scratch.write_bytes(whole[: cut % (len(whole) + 1)])
    with contextlib.suppress(ValueError):
        read = table.read(scratch, TWO)
        assert read == rows[: len(read)]


def test_other_columns_are_named(tmp_path: Path) -> None:
    message = refusal(write(tmp_path / "t.csv", "text,label\nWhere?,card_arrival\n"))
    assert message == (
        f"{tmp_path / 't.csv'}, line 1: "
        "expected the columns 'text', 'category', found 'text', 'label'"
    )


def test_an_empty_file_has_no_columns(tmp_path: Path) -> None:
    assert refusal(write(tmp_path / "t.csv", "")).endswith("found none")


def test_an_unknown_intent_is_named_with_its_row_and_line(tmp_path: Path) -> None:
    # Row 2 begins on line 4, since row 1 holds a line break: the two numbers must differ.
    file = write(tmp_path / "t.csv", 'text,category\n"a\nb",card_arrival\nc,card_lost\n')
    assert refusal(file) == (
        f"{file}, row 2 (line 4): unknown intent 'card_lost'; expected one of the 2 in intents.txt"
    )


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("Where?", "expected 2 fields, found 1: 'Where?'"),
        ("Oh, where?,card_arrival", "found 3: 'Oh', ' where?', 'card_arrival'"),
        ("", "expected 2 fields, found 0: none"),
    ],
)
def test_a_row_needs_two_fields(tmp_path: Path, row: str, fault: str) -> None:
    file = write(tmp_path / "t.csv", f"text,category\na,card_arrival\n{row}\nb,card_arrival\n")
    assert f"{file}, row 2 (line 3): " in refusal(file)
    assert fault in refusal(file)


@pytest.mark.parametrize(
    ("text", "line"),
    [('"text,category\n', 1), ('text,category\n"a\nb",card_arrival\n"c,card_arrival\n\n', 4)],
)
def test_an_open_quote_is_refused_with_the_line_it_opens_on(
    tmp_path: Path, text: str, line: int
) -> None:
    file = write(tmp_path / "t.csv", text)
    assert f"{file}, line {line}: expected a record in CSV" in refusal(file)


def test_other_encodings_are_refused_with_line_and_byte(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes("text,category\na,card_arrival\ncafé,card_arrival\n".encode("latin-1"))
    message = refusal(file)
    assert f"{file}, line 3: expected UTF-8, found the byte 0xe9" in message


# The two lists


def test_intents_are_77_names_in_alphabetical_order() -> None:
    assert len(corpora.INTENTS) == len(set(corpora.INTENTS)) == 77
    assert list(corpora.INTENTS) == sorted(corpora.INTENTS)
    assert "card_arrival" in corpora.INTENTS


def test_words_are_ids() -> None:
    words = corpora.words()
    assert len(words) == len(set(words)) == 2202
    assert words[:2] == ["<pad>", "<unk>"]
    ids = {"where": 62, "is": 11, "my": 4, "card": 9, "?": 3, ".": 5, "never": 248, "arrived": 274}
    assert {word: words.index(word) for word in ids} == ids


def test_words_are_a_new_list_each_time() -> None:
    corpora.words().clear()
    assert corpora.words()


# Where Banking77 is


def test_the_variable_names_the_folder(folder: Path) -> None:
    assert banking77.path() == folder / "train.csv"


@pytest.mark.parametrize("unset", [None, ""])
def test_without_the_variable_it_is_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, unset: str | None
) -> None:
    monkeypatch.delenv("SELFATTN_BANKING77", raising=False)
    if unset is not None:
        monkeypatch.setenv("SELFATTN_BANKING77", unset)
    cache = Path(platformdirs.user_cache_dir("selfattn"))
    assert banking77.path() == cache / "banking77" / "train.csv"


def test_a_relative_folder_and_a_tilde_are_made_absolute(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SELFATTN_BANKING77", "data")
    assert banking77.path() == folder / "data" / "train.csv"
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("SELFATTN_BANKING77", "~/data")
    assert banking77.path() == folder / "data" / "train.csv"


# Reading by name


def test_an_unknown_corpus_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^unknown corpus 'Bundled'; expected 'banking77' or "):
        corpora.rows("Bundled")


def test_published_rows(published: Path) -> None:
    rows = corpora.rows("banking77")
    assert len(rows) == banking77.ROWS == 10_003
    assert rows[0] == ("I am still waiting on my card?", "card_arrival")
    with published.open(encoding="utf-8", newline="") as file:
        assert rows == [(row["text"], row["category"]) for row in csv.DictReader(file)]
    assert {intent for _, intent in rows} == set(corpora.INTENTS)


def test_absent_rows_name_the_variable_the_folder_and_the_command(folder: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        corpora.rows("banking77")
    for word in ("SELFATTN_BANKING77", f"{folder},", "train.csv", "`selfattn data`"):
        assert word in str(error.value)


def test_absent_rows_in_the_cache_name_the_file_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SELFATTN_BANKING77", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    with pytest.raises(FileNotFoundError) as error:
        corpora.rows("banking77")
    assert f"not at {tmp_path / 'selfattn' / 'banking77' / 'train.csv'}." in str(error.value)
    assert "`selfattn data` downloads it" in str(error.value)


def test_columns_and_intents_are_complained_of_before_the_checksum(folder: Path) -> None:
    for text, fault in [
        ("text,label\na,card_arrival\n", "found 'text', 'label'"),
        ("text,category\na,no_such\n", "unknown intent 'no_such'"),
    ]:
        write(folder / "train.csv", text)
        with pytest.raises(ValueError, match="Run `selfattn data`") as error:
            corpora.rows("banking77")
        assert fault in str(error.value)
        assert "sha256" not in str(error.value)


def test_another_file_is_refused_by_its_checksum(folder: Path) -> None:
    file = write(folder / "train.csv", "text,category\na,card_arrival\n")
    with pytest.raises(ValueError, match="is not the published file") as error:
        corpora.rows("banking77")
    message = str(error.value)
    assert message.startswith(str(file))
    assert (
        "expected sha256 b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b "
        "and 10,003 rows" in message
    )
    found = hashlib.sha256(b"text,category\na,card_arrival\n").hexdigest()
    assert f"found sha256 {found} and 1 rows" in message
    for remedy in ("`selfattn data`", "remove the file", "unset SELFATTN_BANKING77"):
        assert remedy in message


def test_one_changed_line_end_is_refused(published: Path, folder: Path) -> None:
    # The same rows to the letter, so that nothing but the checksum can tell.
    data = published.read_bytes()
    (folder / "train.csv").write_bytes(data.removesuffix(b"\r\n") + b"\n")
    with pytest.raises(ValueError, match=r"found sha256 \w+ and 10,003 rows"):
        corpora.rows("banking77")


def test_something_unreadable_is_refused(folder: Path) -> None:
    (folder / "train.csv").mkdir()
    with pytest.raises(OSError, match=r"train\.csv cannot be read: .*Run `selfattn data`"):
        corpora.rows("banking77")
    assert not banking77.is_published(folder / "train.csv")


# Choosing a corpus


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's cache, empty; no variable is set and nothing printed yet."""
    monkeypatch.delenv("SELFATTN_BANKING77", raising=False)
    monkeypatch.delenv("SELFATTN_CORPUS", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    corpora._say_bundled.cache_clear()
    folder = tmp_path / "selfattn" / "banking77"
    folder.mkdir(parents=True)
    return folder


Capture = pytest.CaptureFixture[str]


def test_banking77_is_the_default_where_it_is_found(cache: Path, capsys: Capture) -> None:
    write(cache / "train.csv", "whatever: reading it is the time to look inside")
    assert corpora.default() == "banking77"
    assert capsys.readouterr() == ("", "")


def test_bundled_is_the_default_elsewhere_and_says_so_once(cache: Path, capsys: Capture) -> None:
    assert [corpora.default() for _ in range(3)] == ["bundled"] * 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    for word in (str(cache / "train.csv"), "`selfattn data`", "SELFATTN_CORPUS=bundled"):
        assert word in err


def test_the_corpus_can_be_forced(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("SELFATTN_CORPUS", "bundled")
    assert corpora.default() == "bundled"
    write(cache / "train.csv", "found, and yet not used")
    assert corpora.default() == "bundled"
    (cache / "train.csv").unlink()
    monkeypatch.setenv("SELFATTN_CORPUS", "banking77")
    assert corpora.default() == "banking77"
    assert capsys.readouterr() == ("", "")


def test_a_forced_corpus_must_exist(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFATTN_CORPUS", "banking")
    with pytest.raises(
        ValueError, match=r"^SELFATTN_CORPUS is 'banking'; expected 'banking77' or 'bundled'"
    ):
        corpora.default()


def test_a_named_folder_without_the_file_is_never_passed_over(
    cache: Path, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not even for the copy that is in the cache.
    write(cache / "train.csv", "here, but this is not where the variable points")
    with pytest.raises(FileNotFoundError) as error:
        corpora.default()
    assert f"SELFATTN_BANKING77 names the folder {folder}," in str(error.value)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("SELFATTN_CORPUS", "bundled")
    assert corpora.default() == "bundled"


def test_no_corpus_needs_torch() -> None:
    program = (
        "import sys; from selfattn import corpora; corpora.rows('bundled'); "
        "print(*{'torch', 'numpy', 'pooch', 'requests'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr, run.returncode) == ("\n", "", 0)
