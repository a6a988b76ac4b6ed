"""Dev servers that read keys, and servers of other languages, under `salve dev`."""

import os
import shutil
import urllib.request

from bench import expect, pids, status, wait_for
from servers import free_port, incidents, project, serving

GO = """package main

import (
	"fmt"
	"net/http"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	http.HandleFunc("/die", func(w http.ResponseWriter, r *http.Request) { go func() { panic("out of stock") }() })
	fmt.Println("listening on :PORT")
	panic(http.ListenAndServe("127.0.0.1:PORT", nil))
}
"""

RUBY = r"""require 'socket'
server = TCPServer.new('127.0.0.1', PORT)
puts "Listening on http://127.0.0.1:PORT"
$stdout.flush
loop do
  client = server.accept
  line = client.gets
  while (head = client.gets) && head != "\r\n"; end
  raise 'out of stock' if line.include?('/die')
  client.print "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
  client.close
end
"""

JAVA = """import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
public class Main {
  public static void main(String[] words) throws Exception {
    var server = HttpServer.create(new InetSocketAddress("127.0.0.1", PORT), 0);
    server.createContext("/", e -> { e.sendResponseHeaders(200, 2); e.getResponseBody().write("ok".getBytes()); e.close(); });
    server.createContext("/die", e -> Runtime.getRuntime().halt(3));
    server.start();
    System.out.println("Started on port PORT");
  }
}
"""

RUST = """use std::io::{Read, Write};
fn main() {
    let listener = std::net::TcpListener::bind("127.0.0.1:PORT").unwrap();
    println!("listening on http://127.0.0.1:PORT");
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut head = [0; 1024];
        let _ = stream.read(&mut head);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nok");
    }
}
"""


def nodemon_restarts_by_its_own_key(tools):
    with project(tools, tools.watched()) as made:
        with serving(made, "npm", "run", "dev", env={"PORT": str(free_port())}) as dev:
            dev.until("up  ")
            before = pids("src/index.mjs", made.dir)
            dev.press("rs\n")
            dev.until("[nodemon] starting")
            wait_for("a restart", lambda: before[-1] not in pids("src/index.mjs", made.dir))
            expect("rejected" not in dev.screen(), "Salve took the key")
            expect(incidents(made) == 0, "it was an incident")


def vite_has_its_shortcuts(tools):
    with project(tools, tools.vite()) as made, serving(made, "npm", "run", "dev") as dev:
        dev.until("press h + enter")
        dev.until("up  ")
        dev.press("h\n")
        dev.until("restart the server")


def a_slip_under_tsx_is_told_with_its_place(tools):
    with project(tools, tools.watched()) as made:
        good = (made.dir / "src/index.ts").read_text()
        env = {"PORT": str(free_port()), "SALVE_SERVER_LIVENESS_GRACE_MS": "3000"}
        with serving(made, "npm", "run", "tsx", env=env) as dev:
            dev.until("up  ")
            made.write("src/index.ts", good.replace("new Hono()", "new Hono(("))
            dev.until("needs you", 60)
            dev.until("does not parse")
            dev.until("src/index.ts:")
            made.write("src/index.ts", good)
            dev.until("well", 60)
            expect(incidents(made) == 1, "it was told more than once")


def vite_plugin_damaged(tools):
    with project(tools, tools.vite()) as made:
        made.write("node_modules/@vitejs/plugin-react/dist/index.js", "export default (((\n")
        with serving(made, "npm", "run", "dev") as dev:
            dev.until("does not parse: its files are damaged")
            dev.until("healed")
            expect("The source does not parse" not in dev.screen(), "the source parses")


def crashes_and_heals(tools, command, files):
    """Lets a server die of a request, and wants it back."""
    port = free_port()
    with project(tools) as made:
        for path, text in files.items():
            made.write(path, text.replace("PORT", str(port)))
        with serving(made, *command) as dev:
            dev.until("up  ")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/die", timeout=5).read()
            except OSError:
                pass
            dev.until("crashed")
            dev.until("healed")
            expect(status(f"http://127.0.0.1:{port}/") == 200, "it does not answer")


def go_panics_and_is_started_again(tools):
    if shutil.which("go"):
        crashes_and_heals(tools, ["go", "run", "."], {"go.mod": "module shop\ngo 1.19\n", "main.go": GO})


def ruby_raises_and_is_started_again(tools):
    if shutil.which("ruby"):
        crashes_and_heals(tools, ["ruby", "app.rb"], {"app.rb": RUBY})


def java_halts_and_is_started_again(tools):
    if shutil.which("java"):
        crashes_and_heals(tools, ["java", "Main.java"], {"Main.java": JAVA})


def php_page_does_not_parse_and_is_mended(tools):
    if not shutil.which("php"):
        return
    with project(tools) as made:
        made.write("index.php", "<?php echo 'hello';\n")
        port = free_port()
        with serving(made, "php", "-S", f"localhost:{port}", env={"SALVE_SERVER_LIVENESS_GRACE_MS": "3000"}) as dev:
            dev.until("up  ")
            made.write("index.php", "<?php echo hello(;\n")
            dev.until("ill", 90)
            dev.until("index.php:1")
            made.write("index.php", "<?php echo 'hello';\n")
            dev.until("well", 90)


def cargo_run_does_not_compile_and_is_mended(tools):
    port = str(free_port())
    with project(tools) as made:
        made.write("Cargo.toml", '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n')
        good = RUST.replace("PORT", port)
        made.write("src/main.rs", good.replace("stream.read(", "stream.rea("))
        with serving(made, "cargo", "run", env={"HOME": os.environ["HOME"]}) as dev:
            dev.until("needs you")
            # The place of the error, not that of the warning before it.
            dev.until("src/main.rs:8")
            made.write("src/main.rs", good)
            dev.until("well")
            expect(status(f"http://127.0.0.1:{port}/") == 200, "it does not answer")


TRIALS = {
    trial.__name__.replace("_", "-"): trial
    for trial in [
        nodemon_restarts_by_its_own_key,
        vite_has_its_shortcuts,
        a_slip_under_tsx_is_told_with_its_place,
        vite_plugin_damaged,
        go_panics_and_is_started_again,
        ruby_raises_and_is_started_again,
        java_halts_and_is_started_again,
        php_page_does_not_parse_and_is_mended,
        cargo_run_does_not_compile_and_is_mended,
    ]
}
