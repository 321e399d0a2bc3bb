"""Under which paths a workload is reached."""

from mooring.http.router import Router
from mooring.proxy.proxy import Proxy
from mooring.proxy.sse_transport import SSETransport
from mooring.proxy.streamable import StreamableHTTP
from mooring.proxy.ws_transport import WebSocketTransport

__all__ = ["add_routes"]


def add_routes(router: Router, proxy: Proxy, base: str) -> None:
    """All transports of a proxy; `base` is empty, or begins with a slash."""
    streamable, sse, websocket = StreamableHTTP(proxy), SSETransport(proxy), WebSocketTransport(proxy)
    router.add("POST", f"{base}/mcp", streamable.post)
    router.add("GET", f"{base}/mcp", streamable.get)
    router.add("DELETE", f"{base}/mcp", streamable.delete)
    router.add("GET", f"{base}/sse", sse.get)
    router.add("POST", f"{base}/messages", sse.post)
    router.add("GET", f"{base}/ws", websocket.get)
