"""An MCP server with one tool, which dies in the first call that it ever gets.

The argument names the file by which it knows that it died already.
"""

import json
import os
import sys
from pathlib import Path

died = Path(sys.argv[1])
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
        if not died.exists():
            died.touch()
            os._exit(7)
        return {"content": [{"type": "text", "text": "the lamp costs 4711 cents"}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}
        print(json.dumps(reply), flush=True)
