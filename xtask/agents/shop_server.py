"""An MCP server with one tool, which fails in the first call that it ever gets.

The first argument says how: `dies`, or `expires`, as a token does until somebody logs in. The second one
names the file by which it knows that it died already, or that somebody logged in.
"""

import json
import os
import sys
from pathlib import Path

fault, mark = sys.argv[1], Path(sys.argv[2])
PRICE = {
    "name": "price", "description": "Returns the price of an article.",
    "inputSchema": {"type": "object", "properties": {"article": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


def answer(message):
    """Returns the result of a request."""
    method = message["method"]
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "shop", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [PRICE]}
    if method == "tools/call":
        if not mark.exists() and fault == "dies":
            mark.touch()
            os._exit(7)
        if not mark.exists():
            return {"isError": True, "content": [{"type": "text", "text": "HTTP 401: token expired"}]}
        return {"content": [{"type": "text", "text": "the lamp costs 4711 cents"}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}
        print(json.dumps(reply), flush=True)
