"""Banking77's training queries: where they are, how they get there, whether they are intact.

Casanueva et al., "Efficient Intent Detection with Dual Sentence Encoders", arXiv 2003.04807.
The file is downloaded and never shipped; see CREDIT.md beside this module.
"""

import hashlib
import os
from pathlib import Path

import platformdirs

from selfattn.corpora import table
from selfattn.corpora.lists import INTENTS

FILE = "train.csv"
ROWS = 10_003
SHA256 = "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b"
COMMIT = "57ec275d8078af65b7731c2a98be812d844a6d6b"
URL = (
    "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/"
    f"{COMMIT}/banking_data/{FILE}"
)

VARIABLE = "SELFATTN_BANKING77"


def path() -> Path:
    """Say where the file is, or would be.

    Returns:
        `train.csv` in the folder that SELFATTN_BANKING77 names, otherwise in the user's cache.
        An absolute path; it need not exist.
    """
    folder = os.environ.get(VARIABLE) or os.path.join(
        platformdirs.user_cache_dir("selfattn"), "banking77"
    )
    return Path(os.path.expanduser(folder)).absolute() / FILE


def found() -> bool:
    """Look for the file, without reading it.

    Returns:
        Whether there is something at `path()`.

    Raises:
        FileNotFoundError: SELFATTN_BANKING77 names a folder without the file. Whoever set it
            wants Banking77, and must not get another corpus without a word.
    """
    file = path()
    if not file.exists() and os.environ.get(VARIABLE):
        raise FileNotFoundError(_absence(file))
    return file.exists()


def is_published(file: Path) -> bool:
    """Compare a file's checksum with that of the published one.

    Returns:
        True if they are equal; False if they differ or the file cannot be read.
    """
    try:
        return _sha256(file) == SHA256
    except OSError:
        return False


def verify(file: Path) -> list[table.Row]:
    """Read the file, and refuse it unless it is the published one.

    Columns and intents are looked at before the checksum, so that the most specific error comes
    first.

    Returns:
        Pairs (text, intent) in file order.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: it is not the published file.
        OSError: it cannot be read.
    """
    try:
        rows = table.read(file, INTENTS)
        checksum = _sha256(file)
        if checksum != SHA256:
            raise ValueError(
                f"{file} is not the published file: expected sha256 {SHA256} and {ROWS:,} rows, "
                f"found sha256 {checksum} and {len(rows):,} rows"
            )
    except FileNotFoundError as error:
        raise FileNotFoundError(_absence(file)) from error
    except ValueError as error:
        raise ValueError(f"{error}. {_remedy()}") from error
    except OSError as error:
        raise OSError(f"{file} cannot be read: {error}. {_remedy()}") from error
    return rows


def download(url: str = URL) -> Path:
    """Download the file to `path()`, unless the published one is there already.

    All or nothing: pooch writes to a temporary name in the same folder, compares the checksum,
    moves the file into place only if it is right, and removes the temporary one in any case.

    Returns:
        `path()`.

    Raises:
        ValueError: what came is not the published file.
        OSError: the server could not be reached or answered with an error, or the file could not
            be saved.
    """
    # Imported here, because these load the network libraries, and most callers never download.
    import pooch
    from requests.exceptions import RequestException
    from tqdm import tqdm

    file = path()
    pooch.get_logger().setLevel("WARNING")  # it reports each download; our callers do that
    # Our own bar, so that it is gone before an error is printed. `disable=None`: only on a
    # terminal. pooch sets the true total, but takes a bar without any for none at all.
    bar = tqdm(total=1, unit="B", unit_scale=True, leave=False, disable=None)
    try:
        with bar:
            pooch.retrieve(url, SHA256, fname=FILE, path=file.parent, progressbar=bar)
    except RequestException as error:  # an OSError too, so it comes first
        raise OSError(
            f"{FILE} could not be downloaded from {url}. Check the network, or its proxy in "
            f"HTTPS_PROXY, and try again; or get the file in another way and name its folder in "
            f"{VARIABLE}. The cause: {error}"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"what {url} sent is not the published {FILE}, and was not kept. Try again; if it "
            f"stays so, something on the way, such as a proxy or a login page, answers in the "
            f"server's place. The cause: {error}"
        ) from error
    except OSError as error:
        raise OSError(
            f"{FILE} could not be saved in {file.parent}. Make sure that this folder can be "
            f"created and written to and that its disk has room, or name another folder in "
            f"{VARIABLE}. The cause: {error}"
        ) from error
    return file


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _absence(file: Path) -> str:
    if os.environ.get(VARIABLE):
        return (
            f"{VARIABLE} names the folder {file.parent}, which holds no {FILE}. "
            f"`selfattn data` downloads it there; or name the folder that has it, or unset "
            f"{VARIABLE}."
        )
    return (
        f"Banking77 is not at {file}. `selfattn data` downloads it; if you have it elsewhere, "
        f"name its folder in {VARIABLE}."
    )


def _remedy() -> str:
    unset = f", or unset {VARIABLE}" if os.environ.get(VARIABLE) else ""
    return f"Run `selfattn data`, which writes {path()}, or remove the file{unset}."
