"""A server made with FastMCP: a tool that needs a token, one that acts and dies, and one that works until
it is cancelled."""

import asyncio
import os

from fastmcp import Context, FastMCP
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


@mcp.tool
async def linger(ctx: Context) -> str:
    """Works until it is cancelled."""
    await ctx.report_progress(1)
    try:
        await asyncio.sleep(3600)
    finally:
        with open("cancelled", "a") as cancelled:
            cancelled.write("yes\n")
    return "nobody reads this"


mcp.run(show_banner=False)
