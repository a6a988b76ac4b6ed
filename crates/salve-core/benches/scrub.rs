//! Throughput of the scrubber on ordinary and hostile text, beside a memchr pass as the limit.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use salve_core::scrub::{ScrubKey, Scrubber};

/// Small enough that the best of many runs is undisturbed on a busy machine.
const SIZE: usize = 512 << 10;

/// Lines such as dev servers, tests, package managers and web servers print.
const LOG: &str = "\
2026-01-01T12:00:00.123Z INFO  http: GET /api/users/42?page=2&limit=20 200 12ms 1.2 KB\n\
[vite] hmr update /src/components/UserList.tsx, /src/styles/main.css\n\
   Compiling serde_json v1.0.140 (/home/alice/.cargo/registry/src/serde_json-1.0.140)\n\
npm warn deprecated inflight@1.0.6: This module is not supported, and leaks memory.\n\
    at Object.handler (/app/src/server/routes/auth.ts:120:17)\n\
PASS src/components/__tests__/Button.test.tsx (5.123 s)\n\
time=\"2026-01-01T12:00:01Z\" level=info msg=\"reconciled\" controller=deployment took=12.3ms\n\
10.0.0.7 - - [01/Jan/2026:12:00:01 +0000] \"POST /v1/session HTTP/1.1\" 201 512 \"-\" \"curl/8\"\n\
error[E0308]: mismatched types: expected `String`, found `&str` in src/config/load.rs:42\n\
Downloading https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz (4.2 kB)\n\
DEBUG cache miss for key user:42:profile, loading from the database (3 rows, 1.2 ms)\n\
warning: unused variable: `token`, prefix it with an underscore: `_token`\n";

/// Source code, where words such as `token` and `key` are everywhere.
const CODE: &str = "\
export function refresh(token: string, key: CacheKey): Promise<Session> {\n\
  const secret = process.env.SESSION_SECRET ?? throwMissing(\"SESSION_SECRET\");\n\
  if (!token || token.length < MIN_TOKEN_LENGTH) throw new AuthError(\"invalid token\");\n\
  return fetch(`${base}/oauth/token`, { headers: { Authorization: `Bearer ${token}` } });\n\
}\n";

fn main() {
    let scrubber = Scrubber::new(ScrubKey::new([7; 32]));
    // Tables and automata are built on first use.
    let start = Instant::now();
    black_box(scrubber.scrub_bytes(b"password=x"));
    println!("first use             {:>8.2} ms", start.elapsed().as_secs_f64() * 1e3);
    let secret = format!("{LOG}login with DB_PASSWORD=h4nter2-{} as app\n", "x9Y".repeat(4));
    let hostile = [
        ("hostile: key=key=…", "key=".to_owned()),
        ("hostile: ://", "://".to_owned()),
        ("hostile: \"password\":\"", "\"password\":\"".to_owned()),
        ("hostile: a://b:c/d@", "a://b:c/d@".to_owned()),
        ("hostile: BEGIN", "-----BEGIN RSA PRIVATE KEY-----".to_owned()),
        ("hostile: mysql -p ", "mysql -p ".to_owned()),
        ("hostile: [secret:", "[secret:".to_owned()),
        ("hostile: eyJ", "eyJ".to_owned()),
        ("hostile: ESC", "\x1b".to_owned()),
        ("hostile: name", "name".to_owned()),
        ("hostile: name: token", "- name: TOKEN\n".to_owned()),
    ];
    report("ordinary log", &scrubber, LOG, Some(200.0));
    report("log with secrets", &scrubber, &secret, None);
    report("source code", &scrubber, CODE, None);
    for (name, text) in &hostile {
        report(name, &scrubber, text, None);
    }
    four_kib(&scrubber);
}

/// Times one text repeated to [`SIZE`], next to memchr over the same bytes.
fn report(name: &str, scrubber: &Scrubber, part: &str, least: Option<f64>) {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    if only.is_some_and(|only| !name.contains(&only)) {
        return;
    }
    let text = part.repeat(SIZE / part.len());
    let speed = best(text.len(), || black_box(scrubber.scrub_bytes(text.as_bytes())).len());
    let limit = best(text.len(), || memchr::memchr_iter(b'\n', text.as_bytes()).count());
    let verdict = match least {
        Some(least) if speed < least => format!("BELOW the limit of {least} MB/s"),
        Some(least) => format!("limit {least} MB/s, {:.1} times that", speed / least),
        None => String::new(),
    };
    let ratio = speed / limit;
    println!("{name:<24} {speed:>8.0} MB/s  {ratio:>6.3} of memchr ({limit:.0} MB/s) {verdict}");
}

/// Returns the best of a few runs, in MB/s.
fn best(len: usize, mut run: impl FnMut() -> usize) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..100 {
        let start = Instant::now();
        black_box(run());
        best = best.max(len as f64 / 1e6 / start.elapsed().as_secs_f64());
        if start.elapsed().as_secs() > 1 {
            break;
        }
    }
    best
}

/// Times a failure of ordinary size.
fn four_kib(scrubber: &Scrubber) {
    let text = LOG.repeat(4096 / LOG.len());
    let rounds = 2000;
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(scrubber.scrub(&text));
    }
    let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
    println!("{} bytes of log      {each:>8.1} µs", text.len());
}
