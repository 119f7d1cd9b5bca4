"""Parts that need no server: the stream reader, the choice of an option, and what is committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import generate
import pytest

from triplane import Answer, TriplaneError
from triplane._sse import StreamParser
from triplane.permission import option_for

STREAMS = {
    "a message": ("id: 1\nevent: status\ndata: {}\n\n", [("status", "{}", "1")]),
    "no event name": ("data: x\n\n", [("message", "x", None)]),
    "comments and unknown fields": (": hi\nfoo: bar\ndata: x\n\n:\n\n", [("message", "x", None)]),
    "lines of data": ("data: a\ndata\ndata:b\n\n", [("message", "a\n\nb", None)]),
    "CR LF and CR": ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", [("message", "a", None), ("message", "b", None), ("message", "c", None)]),
    "no data, no message": ("event: x\nid: 3\n\ndata: y\n\n", [("message", "y", None)]),
    "an unfinished message": ("data: a\n\ndata: b\n", [("message", "a", None)]),
    "a byte order mark": ("\ufeffdata: a\n\n", [("message", "a", None)]),
    "other line ends are text": ("data: a\u2028b\x0bc\n\n", [("message", "a\u2028b\x0bc", None)]),
    "characters of many bytes": ("data: ä€😀\n\n", [("message", "ä€😀", None)]),
}


@pytest.mark.parametrize("name", STREAMS)
def test_event_streams_at_every_cut(name: str) -> None:
    text, expected = STREAMS[name]
    data = text.encode()
    for cut in range(len(data) + 1):
        parser = StreamParser()
        assert [tuple(one) for part in (data[:cut], data[cut:]) for one in parser.push(part)] == expected, f"cut at {cut}"
    parser = StreamParser()
    assert [tuple(one) for byte in data for one in parser.push(bytes([byte]))] == expected


def test_always_falls_back_to_once_and_never_from_no_to_yes() -> None:
    def option(kind: str) -> dict[str, str]:
        return {"id": f"id-{kind}", "name": kind, "kind": kind}

    once = [option("allow_once"), option("reject_once")]
    assert option_for([*once, option("allow_always")], Answer(True, always=True)) == "id-allow_always"
    assert option_for(once, Answer(True, always=True)) == "id-allow_once"
    assert option_for(once, False) == "id-reject_once"
    with pytest.raises(TriplaneError, match="unsupported"):
        option_for([option("allow_always")], True)


def test_the_generated_types_are_what_the_committed_documents_give() -> None:
    assert generate.stale() == [], "run: python scripts/generate.py"


def test_the_package_is_typed_throughout() -> None:
    root = Path(__file__).resolve().parents[1]
    checked = subprocess.run([sys.executable, "-m", "mypy"], cwd=root, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
