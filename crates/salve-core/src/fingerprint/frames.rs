//! Stack frames: which lines are frames, and which frame is the first of the user's own code.
//!
//! A frame's line number never counts: it moves with every edit above it.

use super::path;
use super::peel::peel;
use super::text::OutputText;

/// How far frames are looked for around the line that names the failure.
const REACH: usize = 60;

/// A place in the program: what was running, and in which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'l> {
    /// The function, or nothing at the top level.
    pub(crate) function: &'l str,
    /// The file as printed.
    pub(crate) file: &'l str,
}

impl Frame<'_> {
    /// Returns whether the frame is in the project's own code.
    fn is_own(&self) -> bool {
        const FOREIGN: &[&str] = &[
            "node_modules",
            "site-packages",
            "dist-packages",
            "/lib/python",
            "\\lib\\",
            "\\Lib\\",
            "<frozen",
            "<string>",
            "<__array_function__",
            "/rustc/",
            ".cargo/registry",
            ".cargo\\registry",
            ".cargo/git",
            "pkg/mod/",
            "/gems/",
            "/ruby/",
            "/vendor/",
            "node:",
            "internal/",
            "webpack/bootstrap",
            "<anonymous>",
            "native",
            "/usr/lib/",
            "/usr/share/",
            "Unknown Source",
            "/std/",
            "/toolchains/",
            "evalmachine",
            "bundled",
        ];
        if self.file.is_empty() || FOREIGN.iter().any(|mark| self.file.contains(mark)) {
            return false;
        }
        !is_library(self.function) && !is_runtime(self.file)
    }

    /// Returns whether the frame is in anyone's code, and not in that of the language itself.
    fn is_somebodys(&self) -> bool {
        const RUNTIME: &[&str] =
            &["<frozen", "<string>", "/rustc/", "node:", "internal/", "native", "<anonymous>"];
        const SPEAKS: &[&str] = &["java.", "jdk.", "sun.", "core::", "std::", "runtime.", "panic("];
        let standard = self.file.contains("/lib/python") && !self.file.contains("-packages");
        !self.file.is_empty()
            && !standard
            && !RUNTIME.iter().any(|mark| self.file.contains(mark))
            && !SPEAKS.iter().any(|start| self.function.starts_with(start))
            && !is_runtime(self.file)
    }
}

/// Returns whether a file is one of the language's own.
fn is_runtime(file: &str) -> bool {
    // In a workspace of old Go the user's own code lies under `src`, by the host it comes from.
    let standard = |rest: &str| rest.split('/').next().is_some_and(|dir| !dir.contains('.'));
    let go = file.split_once("/go/src/").is_some_and(|(_, rest)| standard(rest));
    go || is_node_core(file)
}

/// Returns whether a function belongs to a well-known library or runtime.
fn is_library(function: &str) -> bool {
    const PACKAGES: &[&str] = &[
        "java.",
        "javax.",
        "jdk.",
        "sun.",
        "com.sun.",
        "org.springframework.",
        "org.apache.",
        "org.junit.",
        "org.hibernate.",
        "org.gradle.",
        "kotlin.",
        "kotlinx.",
        "scala.",
        "akka.",
        "io.netty.",
        "com.google.",
        "org.eclipse.",
        "reactor.",
        "System.",
        "Microsoft.",
        "runtime.",
        "testing.",
        "net/http.",
        "reflect.",
        "panic(",
        "goroutine ",
        "created by ",
        "core::",
        "std::",
        "alloc::",
        "tokio::",
        "rust_begin_unwind",
        "__libc",
        "_start",
        "node::",
        "v8::",
        "org.codehaus.",
        "com.fasterxml.",
        "groovy.",
        "android.",
        "com.android.",
        "dalvik.",
        "java.base/",
    ];
    PACKAGES.iter().any(|package| function.starts_with(package))
}

/// Returns whether a file is one of old Node's own, printed without a directory.
fn is_node_core(file: &str) -> bool {
    const FILES: &[&str] = &[
        "net.js",
        "events.js",
        "util.js",
        "fs.js",
        "module.js",
        "timers.js",
        "dns.js",
        "stream.js",
        "child_process.js",
        "_stream_readable.js",
        "_stream_writable.js",
        "_http_client.js",
        "_http_server.js",
        "_http_outgoing.js",
        "http.js",
        "https.js",
        "tls.js",
        "_tls_wrap.js",
        "buffer.js",
        "bootstrap_node.js",
        "assert.js",
        "vm.js",
        "zlib.js",
        "url.js",
        "path.js",
        "domain.js",
        "node.js",
        "crypto.js",
        "cluster.js",
        "readline.js",
        "repl.js",
        "dgram.js",
        "string_decoder.js",
    ];
    FILES.contains(&path::strip_position(file))
}

/// Returns whether a peeled line is a stack frame of any language.
pub(crate) fn is_frame(body: &str) -> bool {
    parse(body, "").is_some()
}

/// Parses a frame that stands on one line; `next` is the line after it, where Go has the file.
pub(crate) fn parse<'l>(body: &'l str, next: &'l str) -> Option<Frame<'l>> {
    match body.as_bytes().first()? {
        b'a' => at_frame(body.strip_prefix("at ")?),
        b'F' => python_frame(body.strip_prefix("File \"")?),
        b'f' => ruby_frame(body.strip_prefix("from ")?),
        b'#' => php_frame(body),
        b'/' | b'C' | b'D' => go_file(body),
        _ => go_frame(body, next),
    }
}

/// `at fn (file:1:2)`, `at file:1:2`, `at Bar.baz(Bar.java:3)`, `at Ns.M(x) in File.cs:line 3`.
fn at_frame(rest: &str) -> Option<Frame<'_>> {
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    if let Some((function, place)) = rest.split_once(") in ") {
        let function = function.split('(').next().unwrap_or(function);
        let file = place.split_once(":line ").map_or(place, |(file, _)| file);
        return Some(Frame { function, file });
    }
    if let Some(open) = rest.find('(') {
        let place = &rest[open + 1..];
        let file = &place[..place.find(')').unwrap_or(place.len())];
        let function = rest[..open].trim().split(" [as ").next().unwrap_or("");
        let known = file.contains(['.', '/', ':'])
            || matches!(file, "native" | "<anonymous>" | "Native Method" | "Unknown Source");
        return known
            .then(|| Frame { function: function.strip_prefix("new ").unwrap_or(function), file });
    }
    let file = rest.strip_prefix("file://").unwrap_or(rest).trim_end_matches(" {");
    let placed = path::strip_position(file).len() < file.len();
    let one = !file.contains(' ') || file.contains(['/', '\\']);
    (placed && one).then_some(Frame { function: "", file })
}

/// `File "app.py", line 3, in main`.
fn python_frame(rest: &str) -> Option<Frame<'_>> {
    let (file, rest) = rest.split_once("\", line ")?;
    let function = rest.split_once(", in ").map_or("", |(_, function)| function.trim());
    Some(Frame { function, file })
}

/// ``from app.rb:3:in `main'``.
fn ruby_frame(rest: &str) -> Option<Frame<'_>> {
    let (place, function) = rest.split_once(":in ")?;
    Some(Frame { function: function.trim_matches(['`', '\'']), file: path::strip_position(place) })
}

/// `#0 /app/a.php(3): main()`.
fn php_frame(body: &str) -> Option<Frame<'_>> {
    let (_, rest) = body.split_once(' ')?;
    let (place, function) = rest.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    let numbered = line.bytes().all(|b| b.is_ascii_digit());
    numbered.then(|| Frame { function: function.split('(').next().unwrap_or(""), file })
}

/// The second line of a Go frame: `/app/main.go:3 +0x1d`.
fn go_file(body: &str) -> Option<Frame<'_>> {
    let file = body.split(" +0x").next()?;
    (file.contains(".go:") && body.contains(" +0x")).then_some(Frame { function: "", file })
}

/// The first line of a Go frame, with its file on the next: `main.run(0x1, 0x2)`.
fn go_frame<'l>(body: &'l str, next: &'l str) -> Option<Frame<'l>> {
    let next = next.trim();
    let function = &body[..go_arguments(body)?];
    if !next.contains(".go:") || function.contains(' ') {
        return None;
    }
    Some(Frame { function, file: next.split(' ').next().unwrap_or(next) })
}

/// Returns where the arguments of a Go call begin: `main.(*Cache).Put(0x1, {0x2, 0x3})`.
fn go_arguments(body: &str) -> Option<usize> {
    let mut open = 0;
    for (at, byte) in body.bytes().enumerate().rev() {
        match byte {
            b')' => open += 1,
            b'(' if open == 1 => return Some(at),
            b'(' => open -= 1,
            _ if open == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns the first frame of the user's own code for the failure named on line `head`, or else
/// the first one of a library.
///
/// Most languages print frames below the head; Python prints them above, innermost last.
pub(crate) fn top<'t>(text: &OutputText<'t>, head: usize) -> Option<Frame<'t>> {
    let below = head + 1..(head + 1 + REACH).min(text.len());
    let above = (head.saturating_sub(REACH)..head).rev();
    let frame = |number: usize| {
        let body = peel(text.line(number)).body;
        parse(body, peel(text.line(number + 1)).body)
    };
    let own = |number: usize| frame(number).filter(Frame::is_own);
    let somebodys = |number: usize| frame(number).filter(Frame::is_somebodys);
    let python =
        (1..=4).any(|n| head >= n && peel(text.line(head - n)).body.starts_with("File \""));
    if python {
        let found = above.clone().find_map(own).or_else(|| below.clone().find_map(own));
        return found.or_else(|| above.clone().find_map(somebodys));
    }
    // Where nothing is the user's own, a library still tells one failure from another.
    below.clone().find_map(own).or_else(|| below.clone().find_map(somebodys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, head: usize, want: Option<(&str, &str)>) {
        let text = OutputText::new(text);
        let got = top(&text, head).map(|frame| (frame.function, path::base(frame.file)));
        assert_eq!(got, want);
    }

    #[test]
    fn the_top_own_frame_is_found_in_every_language() {
        check(
            "TypeError: x\n    at Object.f (node:internal/a:1:2)\n    at g (/app/node_modules/a/i.js:1:2)\n    \
             at async load (/app/src/load.ts:9:1)\n    at main (/app/src/main.ts:3:1)",
            0,
            Some(("load", "load.ts")),
        );
        check(
            "Traceback\n  File \"/app/main.py\", line 3, in main\n    run()\n  File \"/app/job.py\", line 9, in run\n    x\n  \
             File \"/usr/lib/python3.11/json/__init__.py\", line 1, in loads\n    y\nValueError: bad",
            7,
            Some(("run", "job.py")),
        );
        check(
            "java.lang.IllegalStateException: x\n\tat java.base/java.util.Optional.get(Optional.java:1)\n\tat dev.shop.Cart.add(Cart.java:3)",
            0,
            Some(("dev.shop.Cart.add", "Cart.java")),
        );
        check(
            "panic: boom\n\ngoroutine 1 [running]:\nruntime.gopanic(0x1)\n\t/usr/local/go/src/runtime/panic.go:1 +0x1\nmain.work(0x1)\n\t/app/work.go:3 +0x1d",
            0,
            Some(("main.work", "work.go")),
        );
        check(
            "panic: boom\n\ngoroutine 1 [running]:\nmain.(*Cart).Put(0x1, {0x2, 0x3})\n\t/app/cart.go:3 +0x1d",
            0,
            Some(("main.(*Cart).Put", "cart.go")),
        );
        check(
            "System.Exception: x\n   at Shop.Cart.Add(Int32 n) in /app/Cart.cs:line 3",
            0,
            Some(("Shop.Cart.Add", "Cart.cs")),
        );
        check("app.rb:3: undefined\n\tfrom app.rb:9:in `main'", 0, Some(("main", "app.rb")));
        check("PHP Fatal error: x\n#0 /app/a.php(3): run()", 0, Some(("run", "a.php")));
        check("Error: listen\n    at Server.listen (net.js:1452:7)", 0, None);
        check(
            "panic: boom\n\ngoroutine 1 [running]:\nmain.run(0x1)\n\t/home/me/go/src/github.com/me/x/run.go:3 +0x1",
            0,
            Some(("main.run", "run.go")),
        );
    }

    #[test]
    fn a_library_tells_where_nothing_is_the_users_own() {
        check(
            "TypeError: x\n    at Array.map (<anonymous>)\n    at lay (/app/node_modules/rail/i.js:1:2)",
            0,
            Some(("lay", "i.js")),
        );
        check("TypeError: x\n    at Array.map (<anonymous>)", 0, None);
    }

    #[test]
    fn prose_is_no_frame() {
        for line in
            ["at least one of them", "at home", "from now on", "#1 priority", "File not found"]
        {
            assert!(!is_frame(line), "{line}");
        }
    }
}
