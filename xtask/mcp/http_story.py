"""FastMCP over HTTP behind `salve proxy --url`, with a client of each generation of the protocol.

python http_story.py SALVE; starts its own server, on a port of its own.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time

PORT_WAIT = 60


def serve(port):
    """A tool that hangs up and answers later, one that works until it is cancelled, and a resource."""
    import uvicorn
    from fastmcp import Context, FastMCP
    from fastmcp.server.event_store import EventStore

    mcp = FastMCP("http")

    @mcp.tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @mcp.tool
    async def later(ctx: Context) -> str:
        """Hangs up, and answers whoever asks again."""
        with open("later", "a") as calls:
            calls.write("call\n")
        await ctx.close_sse_stream()
        await asyncio.sleep(1)
        return "late"

    @mcp.tool
    async def linger(ctx: Context) -> str:
        """Works until it is cancelled."""
        await ctx.report_progress(1)
        with open("lingering", "w"):
            pass
        try:
            await asyncio.sleep(3600)
        finally:
            with open("cancelled", "w"):
                pass
        return "nobody reads this"

    @mcp.resource("data://motto")
    def motto() -> str:
        return "be well"

    app = mcp.http_app(event_store=EventStore(), retry_interval=200)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


def started(port, directory):
    here = os.path.abspath(__file__)
    server = subprocess.Popen([sys.executable, here, "serve", str(port)], cwd=directory)
    deadline = time.time() + PORT_WAIT
    while time.time() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server
        time.sleep(0.05)
    raise AssertionError("the server did not come up")


async def until(path):
    deadline = time.time() + PORT_WAIT
    while not os.path.exists(path):
        assert time.time() < deadline, f"{path} never came"
        await asyncio.sleep(0.05)


async def story(salve, mode, version):
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        server = started(port, directory)
        args = ["proxy", "--url", f"http://127.0.0.1:{port}/mcp"]
        proxy = StdioServerParameters(command=salve, args=args, env=dict(os.environ), cwd=directory)
        text = lambda result: result.content[0].text
        try:
            async with Client(proxy, mode=mode) as client:
                assert client.protocol_version == version, client.protocol_version
                assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
                read = await client.read_resource("data://motto")
                assert read.contents[0].text == "be well"
                lingering = asyncio.create_task(client.call_tool("linger", {}))
                await until(os.path.join(directory, "lingering"))
                lingering.cancel()
                await asyncio.wait([lingering])
                await until(os.path.join(directory, "cancelled"))
                if mode == "legacy":
                    assert text(await client.call_tool("later", {})) == "late"
                    with open(os.path.join(directory, "later")) as calls:
                        assert calls.read() == "call\n", "it was called once"
                server.kill()
                server.wait()
                server = started(port, directory)
                assert text(await client.call_tool("add", {"a": 3, "b": 4})) == "7"
        finally:
            server.kill()
            server.wait()
    print(f"FastMCP over HTTP, {version}: read, cancelled, taken up, and started again")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        asyncio.run(story(sys.argv[1], "auto", "2026-07-28"))
        asyncio.run(story(sys.argv[1], "legacy", "2025-11-25"))
