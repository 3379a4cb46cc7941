"""A small fuzzer: damaged documents, by the thousand a second, for readers that must refuse what they cannot read.

A target has good documents to begin with and the errors that it may raise. Each execution damages one of them a few
times: bits, bytes, pieces, words that mean something to the format and, in JSON, single values. Seeded, so that what
is found is found again.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

HANG = 60.0  # seconds after which nobody waits for a reader
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e-320, 1e308, "", "x", "\0", "Rotate",
    "x" * 300, "\ud800", "../../etc/passwd", "<script>", [], {}, [[]], [None], {"": None}, [0.5] * 17, [[1.0]] * 3,
)  # fmt: skip
WORDS = (b"NaN", b"Infinity", b"1e999", b"-1", b"0", b"null", b"true", b"[", b"]", b"{", b"}", b'"', b",", b":", b"\n",
         b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"9" * 5000, b"[" * 3000, b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"..",
         b"/", b"\t", b";", b"\x1b[31m")  # fmt: skip


class Hang(BaseException):
    """A reader takes too long. Not an Exception, which a reader may catch."""


class Target(NamedTuple):
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]  # that it documents
    seeds: Sequence[str | bytes]
    words: Sequence[bytes] = ()
    is_json: bool = False
    seconds: float = 2.0  # that none of some kilobytes takes, though others work on the machine

    @property
    def encoded(self) -> list[bytes]:
        return [seed.encode() if isinstance(seed, str) else seed for seed in self.seeds]


class Found(NamedTuple):
    executions: int
    refused: int  # with a message
    seconds: float
    slowest: float
    grown: int  # bytes, the most memory of the process


def fuzz(target: Target, n: int, seed: int) -> Found:
    """Execute `n` times. Whatever else than a documented error comes out is raised, with what brought it about."""
    random, refused, slowest = Random(seed), 0, 0.0
    Path("/proc/self/clear_refs").write_text("5")  # what another reader has needed would hide what this one needs
    begin, memory = time.perf_counter(), peak_memory()
    with alarm():
        for number in range(n):
            document = damaged(target, random)
            start = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, HANG)
            try:
                target.read(document)
            except target.errors as error:
                refused += bool(str(error))
            except BaseException as error:
                signal.setitimer(signal.ITIMER_REAL, 0)
                error.add_note(f"execution {number} of seed {seed}: {document[:3000]!r}")
                raise
            slowest = max(slowest, time.perf_counter() - start)
    return Found(n, refused, time.perf_counter() - begin, slowest, peak_memory() - memory)


@contextmanager
def alarm() -> Iterator[None]:
    def hangs(number: int, frame: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, hangs)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def peak_memory() -> int:
    """The most of the process since 5 was written to clear_refs."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


# --- damages ----------------------------------------------------------------------------------------------------------


def damaged(target: Target, random: Random) -> bytes:
    document = random.choice(target.encoded)
    if target.is_json and random.random() < 0.7:
        return replaced(json.loads(document), random)
    words = (*WORDS, *target.words)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        document = damage(document, random, words)
    if random.random() < 0.05:  # the head of one, the tail of another
        other = random.choice(target.encoded)
        document = document[: random.randrange(len(document) + 1)] + other[random.randrange(len(other)) :]
    return document


def replaced(document: Any, random: Random) -> bytes:
    """With one value, somewhere, odd, missing, twice or of another place."""
    for _ in range(random.choice((1, 1, 2))):
        parent, key = somewhere(document, random)
        action = random.random()
        if parent is None:
            return json.dumps(random.choice(ODD)).encode()
        if action < 0.15:
            del parent[key]
        elif action < 0.25:
            other, place = somewhere(document, random)
            parent[key] = None if other is None else other[place]
        elif action < 0.3 and isinstance(parent, list):
            parent.append(parent[key])
        elif action < 0.35 and isinstance(parent, dict):
            parent[random.choice(("", "x", f"{key}s"))] = parent[key]
        else:
            parent[key] = random.choice(ODD)
    try:
        return json.dumps(document).encode()
    except ValueError:  # a value that was put inside of itself
        return b"{}"


def somewhere(document: Any, random: Random) -> tuple[Any, Any]:
    """A random place in it: what holds it, and the key there; None where there is nothing inside."""
    parent, key = None, None
    while isinstance(document, dict | list) and document and (parent is None or random.random() < 0.8):
        parent, key = document, random.choice(list(document) if isinstance(document, dict) else range(len(document)))
        document = parent[key]
    return parent, key


def damage(document: bytes, random: Random, words: Sequence[bytes]) -> bytes:
    start = random.randrange(len(document) + 1)
    head, tail, word, n = document[:start], document[start:], random.choice(words), random.choice((1, 2, 8, 64))
    match random.randrange(8):
        case 0 | 1 if tail:  # a bit
            return head + bytes([tail[0] ^ 1 << random.randrange(8)]) + tail[1:]
        case 2:
            return head + word + tail[len(word) :]
        case 3:
            return head + word + tail
        case 4:
            return head + tail[n:]
        case 5:
            return head + tail[:n] * random.choice((2, 3, 50)) + tail[n:]
        case 6:
            return head + random.randbytes(n % 17) + tail[4:]
    return head
