use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(output: &str, want: &str) {
    let mut finder = UrlFinder::default();
    finder.push(output.as_bytes());
    finder.push(b"\n");
    let found = finder.url().map(LocalUrl::to_string);
    assert_eq!(found.as_deref().unwrap_or("nothing"), want, "{output:?}");
}

/// What servers print when they are up, and where they can be asked.
const ANNOUNCEMENTS: &[(&str, &str)] = &[
    // JavaScript
    (
        "\n  VITE v7.1.0  ready in 312 ms\n\n  ➜  Local:   http://localhost:5173/\n  ➜  Network: use --host to expose",
        "http://localhost:5173/",
    ),
    (
        "  \x1b[32m➜\x1b[39m  \x1b[1mLocal\x1b[22m:   \x1b[36mhttp://localhost:\x1b[1m5174\x1b[22m/\x1b[39m",
        "http://localhost:5174/",
    ),
    (
        "   ▲ Next.js 15.4.0\n   - Local:        http://localhost:3000\n   - Network:      http://192.168.0.9:3000",
        "http://localhost:3000/",
    ),
    ("- ready started server on [::]:3000, url: http://localhost:3000", "http://localhost:3000/"),
    ("  ➜ Local:    http://0.0.0.0:3000/", "http://localhost:3000/"),
    (
        "┃ Local    http://localhost:4321/docs-site/\n┃ Network  use --host to expose",
        "http://localhost:4321/docs-site/",
    ),
    (
        "<i> [webpack-dev-server] Project is running at:\n<i> [webpack-dev-server] Loopback: http://localhost:8080/, http://[::1]:8080/",
        "http://localhost:8080/",
    ),
    (
        "Compiled successfully!\n\nYou can now view shop in the browser.\n\n  Local:            http://localhost:3000\n  On Your Network:  http://10.0.0.4:3000",
        "http://localhost:3000/",
    ),
    (
        "** Angular Live Development Server is listening on localhost:4200, open your browser on http://localhost:4200/ **",
        "http://localhost:4200/",
    ),
    ("[remix-serve] http://localhost:3000 (http://192.168.0.9:3000)", "http://localhost:3000/"),
    (
        "You can now view shop in the browser.\n⠀\n  http://localhost:8000/",
        "http://localhost:8000/",
    ),
    ("Example app listening on port 3000", "http://localhost:3000/"),
    ("Server is running on port: 4000", "http://localhost:4000/"),
    ("server listening on 3000", "http://localhost:3000/"),
    ("🚀  Server ready at: http://localhost:4000/", "http://localhost:4000/"),
    (
        r#"{"level":30,"time":1700000000000,"pid":7,"msg":"Server listening at http://127.0.0.1:3000"}"#,
        "http://127.0.0.1:3000/",
    ),
    (r#"{"level":"info","port":3000,"message":"listening"}"#, "http://localhost:3000/"),
    ("> Ready on http://localhost:3000", "http://localhost:3000/"),
    ("Started development server: http://localhost:3000", "http://localhost:3000/"),
    ("[wrangler:info] Ready on http://localhost:8787", "http://localhost:8787/"),
    // Python
    (
        "Django version 5.2, using settings 'shop.settings'\nStarting development server at http://127.0.0.1:8000/\nQuit the server with CONTROL-C.",
        "http://127.0.0.1:8000/",
    ),
    (
        " * Serving Flask app 'app'\n * Debug mode: on\n\x1b[31mWARNING: This is a development server.\x1b[0m\n * Running on http://127.0.0.1:5000\n",
        "http://127.0.0.1:5000/",
    ),
    (
        " * Running on all addresses (0.0.0.0)\n * Running on http://127.0.0.1:5001\n * Running on http://172.17.0.2:5001",
        "http://127.0.0.1:5001/",
    ),
    (
        "INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)",
        "http://127.0.0.1:8000/",
    ),
    (
        "[2026-01-05 10:00:00 +0000] [7] [INFO] Listening at: http://0.0.0.0:8000 (7)",
        "http://localhost:8000/",
    ),
    ("Serving HTTP on 0.0.0.0 port 8000 (http://0.0.0.0:8000/) ...", "http://localhost:8000/"),
    ("  Local URL: http://localhost:8501", "http://localhost:8501/"),
    // Ruby, PHP, JVM, .NET, Elixir
    (
        "* Listening on http://127.0.0.1:3000\n* Listening on http://[::1]:3000",
        "http://127.0.0.1:3000/",
    ),
    ("* Listening on tcp://0.0.0.0:3000", "http://localhost:3000/"),
    ("   INFO  Server running on [http://127.0.0.1:8000].", "http://127.0.0.1:8000/"),
    (
        "[Mon Jan  5 10:00:00 2026] PHP 8.4.1 Development Server (http://localhost:8000) started",
        "http://localhost:8000/",
    ),
    (
        "o.s.b.w.e.tomcat.TomcatWebServer  : Tomcat initialized with port 8080 (http)\no.s.b.w.e.tomcat.TomcatWebServer  : Tomcat started on port 8081 (http) with context path '/'",
        "http://localhost:8081/",
    ),
    ("Tomcat started on port(s): 8443 (https) with context path ''", "https://localhost:8443/"),
    ("Now listening on: https://localhost:7001", "https://localhost:7001/"),
    (
        "[info] Running ShopWeb.Endpoint with Bandit 1.5.7 at 127.0.0.1:4000 (http)",
        "http://localhost:4000/",
    ),
    // Go, Rust, others
    ("2026/01/05 10:00:00 Listening on :8080", "http://localhost:8080/"),
    ("[GIN-debug] Listening and serving HTTP on :8080", "http://localhost:8080/"),
    ("⇨ http server started on [::]:1323", "http://localhost:1323/"),
    (
        "time=2026-01-05T10:00:00Z level=INFO msg=\"server started\" addr=:9000",
        "http://localhost:9000/",
    ),
    ("2026-01-05T10:00:00Z  INFO shop: listening on 127.0.0.1:3000", "http://localhost:3000/"),
    (
        "starting service: \"actix-web-service-127.0.0.1:8080\", workers: 2, listening on: 127.0.0.1:8080",
        "http://localhost:8080/",
    ),
    ("🚀 Rocket has launched from http://127.0.0.1:8000", "http://127.0.0.1:8000/"),
    (
        "[Running 'cargo run']\n   Compiling shop v0.1.0\n    Finished `dev` profile\nlistening on http://0.0.0.0:3000",
        "http://localhost:3000/",
    ),
    (
        "Web Server is available at http://localhost:1313/ (bind address 127.0.0.1)",
        "http://localhost:1313/",
    ),
    ("Server address: http://127.0.0.1:4000/", "http://127.0.0.1:4000/"),
];

#[test]
fn what_servers_announce_is_found() {
    for (output, want) in ANNOUNCEMENTS {
        check(output, want);
    }
}

#[test]
fn addresses_of_other_things_are_not_taken() {
    for output in [
        "Debugger listening on ws://127.0.0.1:9229/2d0c0b2e\nFor help, see: https://nodejs.org/en/docs/inspector",
        "Starting inspector on 127.0.0.1:9229 failed: address already in use",
        "Port 3000 is in use, trying another one...",
        "⚠ Port 3000 is in use by process 77, using available port 3001 instead.",
        "Something is already running on port 3000.",
        "Error: listen EADDRINUSE: address already in use :::3000",
        "[HPM] Proxy created: /api  -> http://localhost:5000",
        "[vite] http proxy error: /api/items\nError: connect ECONNREFUSED 127.0.0.1:5000",
        "Connected to postgres://shop:pw@localhost:5432/shop",
        "Database connected at http://localhost:8086",
        "MongoDB running on port 27017",
        "redis is ready on 127.0.0.1:6379",
        "gRPC server listening on :50051",
        "metrics listening on :9090",
        "Listening for transport dt_socket at address: 5005",
        "Learn more: https://vite.dev/guide/",
        "> shop@1.0.0 dev\n> wait-on http://localhost:4000 && electron .",
        "$ API=http://localhost:4000 vite",
        "VITE_API_URL=http://localhost:4000",
        "GET http://localhost:3000/api/items 200 in 12ms",
        "CORS origin: http://localhost:3000",
        "Failed to fetch http://localhost:4000/items",
        "running on 4 workers",
        "running on 4000 threads",
        "listening for file changes",
        "Server started at 10:30:45",
        "ready in 3000 ms",
        "Compiled 1024 modules",
        "Waiting for http://localhost:3000",
        "http://localhost:x@example.com/ is ready",
        "Another next dev server is already running.",
    ] {
        check(output, "nothing");
    }
}

#[test]
fn a_guess_gives_way_to_an_announcement_and_to_nothing_else() {
    check("Using the items from http://localhost:4000/api now", "http://localhost:4000/api");
    check(
        "Using the items from http://localhost:4000 now\nand http://localhost:4001 too",
        "http://localhost:4000/",
    );
    check(
        "Using the items from http://localhost:4000 now\n  Local: http://localhost:3000",
        "http://localhost:3000/",
    );
    check(
        "  Local: http://localhost:3000\n  Local: http://localhost:4000",
        "http://localhost:3000/",
    );
    check(
        "Admin running at http://localhost:9000\nServer running at http://localhost:3000",
        "http://localhost:3000/",
    );
}

#[test]
fn a_line_without_its_end_counts_when_it_is_quiet() {
    let mut finder = UrlFinder::default();
    finder.push(b"Server running at http://localhost:30");
    assert_eq!(finder.url(), None);
    finder.push(b"00");
    assert_eq!(finder.url(), None);
    assert_eq!(finder.url_when_quiet(), Some(LocalUrl::of_port(Scheme::Http, 3000)));
}

#[test]
fn nothing_is_looked_at_after_the_first_megabytes_and_long_lines_cost_no_memory() {
    let announcement = b"\nServer running at http://localhost:3000\n";
    let mut finder = UrlFinder::default();
    finder.push(&vec![b'x'; MOST_BYTES - announcement.len()]);
    assert!(finder.line.capacity() <= 2 * LONGEST_LINE);
    let mut late = finder.clone();
    finder.push(announcement);
    assert_eq!(finder.url(), Some(&LocalUrl::of_port(Scheme::Http, 3000)));
    late.push(b"x");
    late.push(announcement);
    assert_eq!(late.url(), None);
    assert!(late.is_done());
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "http://",
        "https://",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "0.0.0.0",
        ":3000",
        ":",
        "/",
        "\n",
        "\r",
        " ",
        "Local: ",
        "listening on ",
        "port 8080",
        "already ",
        "\x1b[1m",
        "\x1b[0m",
        "\x1b]8;;",
        "\x07",
        "é",
        "➜",
        "=",
        "GET ",
        "tcp://",
        "> ",
        "on 3000",
        "\u{ff}",
    ]);
    let any = prop::collection::vec(any::<u8>(), 0..6);
    let part = prop_oneof![9 => piece.prop_map(|text| text.as_bytes().to_vec()), 1 => any];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn what_is_found_does_not_depend_on_the_chunks(
        output in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut whole = UrlFinder::default();
        whole.push(&output);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(output.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut cut, mut from) = (UrlFinder::default(), 0);
        for to in cuts.into_iter().chain([output.len()]) {
            cut.push(&output[from..to]);
            from = to;
        }
        prop_assert_eq!(whole.url(), cut.url());
        prop_assert_eq!(whole.url_when_quiet(), cut.url_when_quiet());
    }

    #[test]
    fn what_is_found_is_local_and_can_be_read_again(output in pieces()) {
        let mut finder = UrlFinder::default();
        finder.push(&output);
        if let Some(url) = finder.url_when_quiet() {
            prop_assert_eq!(LocalUrl::at_start(&url.to_string()), Some(url));
        }
    }
}
