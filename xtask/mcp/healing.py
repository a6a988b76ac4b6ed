"""A server made with FastMCP: a tool that needs a token, and one that acts and dies."""

import os

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("healing")


@mcp.tool(annotations={"readOnlyHint": True})
def get_orders() -> str:
    """Lists orders."""
    if not os.path.exists("token"):
        raise ToolError("HTTP 401: token expired")
    return "orders"


@mcp.tool
def create_order(die: bool) -> str:
    """Orders."""
    with open("orders", "a") as orders:
        orders.write("order\n")
    if die:
        os._exit(9)
    return "ordered"


mcp.run(show_banner=False)
