"""Triplane's client for asyncio: `connect_http` for a server that runs, `spawn_stdio` for one of your own.

Standard library only. Every failure is a `TriplaneError` whose `code` says what can be done; types come from the committed documents
(`triplane.generated`).
"""

from .backoff import Backoff
from .errors import ClientCode, TriplaneError
from .generated.larik import ErrorCode
from .http import Gap, HttpClient, HttpSession, StreamItem, connect_http
from .permission import Answer, Decide, Decision
from .server import Server, start_server
from .stdio import PROTOCOL, Missed, NodeItem, StdioClient, StdioItem, StdioSession, spawn_stdio

__all__ = [
    "PROTOCOL",
    "Answer",
    "Backoff",
    "ClientCode",
    "Decide",
    "Decision",
    "ErrorCode",
    "Gap",
    "HttpClient",
    "HttpSession",
    "Missed",
    "NodeItem",
    "Server",
    "StdioClient",
    "StdioItem",
    "StdioSession",
    "StreamItem",
    "TriplaneError",
    "connect_http",
    "spawn_stdio",
    "start_server",
]
