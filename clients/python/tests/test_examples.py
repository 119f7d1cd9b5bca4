"""The examples as a reader would start them, each at most 40 lines."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from support import BIN, DEADLINE, serve, timed, where, write

ROOT = Path(__file__).resolve().parents[1]


def chat(name: str, tmp_path: Path, *lines: str, **env: str) -> str:
    there = where(tmp_path)
    there["env"] |= {"TRIPLANE_BIN": BIN, "PYTHONPATH": str(ROOT / "src"), **env}
    told = "".join(f"{line}\n" for line in lines)
    there["stderr"] = subprocess.PIPE
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name], input=told, text=True, stdout=subprocess.PIPE, timeout=DEADLINE, **there
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["chat_http.py", "chat_stdio.py"])
def test_a_chat(name: str, tmp_path: Path) -> None:
    assert len((ROOT / "examples" / name).read_text().splitlines()) <= 40
    out = chat(name, tmp_path, "hello there", "/fail unavailable", write("a.txt", "x"), "and again")
    assert out.startswith("hello there\n") and out.endswith("and again\n")
    assert "unavailable" in out and "allowed: " in out
    assert (tmp_path / "work" / "a.txt").exists()


@timed
async def test_the_http_chat_takes_a_server_that_runs(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        out = await asyncio.to_thread(chat, "chat_http.py", tmp_path, "hello", URL=server.url, TOKEN=server.token)
    assert out == "hello\n"
