//! Where in the project's own source a failure points to.

use std::sync::LazyLock;

use regex_automata::meta::Regex;

use super::facts::ProjectFacts;

/// How tools write a place: a path and a line.
const SHAPES: &[&str] = &[
    r#"File "(?P<path>[^"]+)", line (?P<line>\d+)"#,
    r"(?:^|[\s(\[])(?:file://)?(?P<path>[\w@./~+-]*[\w-]\.(?:[cm]?[jt]sx?|vue|svelte|astro|py|rs|go|rb|php|json|toml|ya?ml|css|scss|html)):(?P<line>\d+)",
    r"(?:^|[\s(\[])(?P<path>[\w@./~+-]*[\w-]\.[cm]?[jt]sx?)\((?P<line>\d+),\d+\)",
    r"\bat (?P<path>[\w@./~+-]*[\w-]\.(?:pl|pm|t)) line (?P<line>\d+)",
    r" in (?P<path>[\w@./~+-]*[\w-]\.php) on line (?P<line>\d+)",
    // A script of a shell may have any name.
    r"(?m)^(?P<path>[\w@./~+-]*[./][\w@./~+-]*): (?:line )?(?P<line>\d+): (?:[Ss]yntax error|unexpected EOF while)",
];

/// Directories whose files are not the project's own source.
const FOREIGN: &[&str] =
    &["node_modules/", "site-packages/", ".venv/", "/lib/python", "node:", "internal/", "<frozen"];

static PLACES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SHAPES.iter().filter_map(|shape| Regex::new(shape).ok()).collect());

/// How pytest writes one frame of a trace: `shop/cart.py:3: in total`, `test_cart.py:5: TypeError`.
const PYTEST: &str = r"(?m)^(?P<path>[\w@./~+-]*[\w-]\.py):(?P<line>\d+): (?:in \S|[\w.]*\w$|$)";

static PYTEST_FRAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PYTEST).ok());

/// Returns ` (file:line)` of the innermost place in the project's own source, or nothing.
///
/// Python writes the innermost frame last, and of chained exceptions the last one is the failure;
/// everybody else writes the innermost first.
pub(super) fn told(key: &str, near: &str, whole: &str, facts: &ProjectFacts) -> String {
    let found = in_pytest(key, whole, facts)
        .or_else(|| under_file(key, whole, facts))
        .or_else(|| below_key(key, whole, facts));
    let found = found.or_else(|| {
        [near, whole].into_iter().find_map(|text| {
            PLACES.iter().enumerate().find_map(|(index, regex)| {
                let own = places(regex, text, facts).map(|found| found.place);
                if index == 0 { own.last() } else { own.into_iter().next() }
            })
        })
    });
    found.map(|place| format!(" ({place})")).unwrap_or_default()
}

/// Returns the frame that belongs to the line `E  …` that names the failure: the one right after
/// it if that is the project's own, else the nearest of its own before it.
fn in_pytest(key: &str, whole: &str, facts: &ProjectFacts) -> Option<String> {
    let regex = PYTEST_FRAME.as_ref()?;
    let frames: Vec<FoundPlace> = places(regex, whole, facts).collect();
    let is_key = |at: &usize| {
        let line = whole[..*at].rsplit('\n').next().unwrap_or_default();
        line.trim_end() == "E" || line.starts_with("E  ")
    };
    let marked = whole.match_indices(key).map(|(at, _)| at).filter(is_key);
    let at = marked.filter(|_| !key.is_empty()).last().unwrap_or(whole.len());
    // The lines that explain an assertion stand between it and its frame.
    let block = whole[at..].find("\n____").map_or(whole.len(), |end| at + end);
    let after = frames.iter().find(|frame| frame.at > at && frame.at < block);
    let before = frames.iter().rev().find(|frame| frame.at < at);
    let within = |frame: &&FoundPlace| {
        whole[at..frame.at].lines().skip(1).all(|l| l.is_empty() || l.starts_with('E'))
    };
    after.filter(within).or(before).map(|frame| frame.place.clone())
}

/// Returns the place of a line that begins with `line:column` and stands, as linters write it,
/// with others of its kind under the name of their file.
fn under_file(key: &str, whole: &str, facts: &ProjectFacts) -> Option<String> {
    let line = spot(key)?;
    let mut above = whole[..whole.rfind(key)?].lines().rev();
    // What is left of the line itself.
    above.next().filter(|rest| rest.trim().is_empty())?;
    let file = above.find(|line| spot(line).is_none())?.trim();
    let own = file.strip_prefix(&facts.root).map(|path| path.trim_start_matches('/'));
    let own = own.or_else(|| (!file.starts_with('/')).then_some(file))?;
    let is_file = own.contains('.') && !own.contains(char::is_whitespace);
    is_file.then(|| format!("{own}:{line}"))
}

/// Returns the line of a text that begins with `line:column`.
fn spot(text: &str) -> Option<&str> {
    let (place, _) = text.trim_start().split_once([' ', '\t'])?;
    let (line, column) = place.split_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(line) && is_number(column)).then_some(line)
}

/// Returns the place to which an arrow points on the line below the one that names the failure, as
/// compilers write it: a warning before it has an arrow of its own.
fn below_key(key: &str, whole: &str, facts: &ProjectFacts) -> Option<String> {
    let (at, _) = whole.match_indices(key).find(|_| !key.is_empty())?;
    let arrow = whole[at..].lines().nth(1)?.trim_start();
    let told = ARROWS.iter().find_map(|mark| arrow.strip_prefix(mark))?;
    PLACES.iter().find_map(|regex| places(regex, told, facts).next()).map(|found| found.place)
}

/// How compilers point to a place below what they say of it.
const ARROWS: [&str; 4] = ["-->", "╭─[", "┌─", "╭▸"];

/// A place in the project's own source, and where in the text it is named.
struct FoundPlace {
    at: usize,
    place: String,
}

fn places<'t>(
    regex: &'t Regex,
    text: &'t str,
    facts: &'t ProjectFacts,
) -> impl Iterator<Item = FoundPlace> + 't {
    regex.captures_iter(text).filter_map(move |groups| {
        let group = |name| groups.get_group_by_name(name).map(|span| &text[span.range()]);
        let (path, line) = (group("path")?, group("line")?);
        let own = path.strip_prefix(&facts.root).map(|path| path.trim_start_matches('/'));
        let own = own.or_else(|| (!path.starts_with('/')).then_some(path))?;
        let at = groups.get_match().map_or(0, |span| span.start());
        let foreign = FOREIGN.iter().any(|part| own.contains(part));
        (!foreign).then(|| FoundPlace { at, place: format!("{own}:{line}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_place_in_the_projects_own_source_is_told() {
        let facts = ProjectFacts { root: "/p".into(), ..ProjectFacts::default() };
        let rows = [
            ("/p/server.js:4\n  x(\n\nSyntaxError: no", " (server.js:4)"),
            ("    at a (/p/node_modules/x/i.js:1:2)\n    at b (/p/src/b.ts:7:2)", " (src/b.ts:7)"),
            ("  File \"/p/a.py\", line 1, in x\n  File \"/p/b.py\", line 9\nKeyError", " (b.py:9)"),
            ("src/a.ts(3,4): error TS2322", " (src/a.ts:3)"),
            ("  --> src/main.rs:8:5", " (src/main.rs:8)"),
            ("#   Failed test 'adds'\n#   at t/a.t line 7.", " (t/a.t:7)"),
            ("PHP Parse error:  unexpected \";\" in /p/index.php on line 2", " (index.php:2)"),
            ("run.sh: 3: Syntax error: end of file unexpected", " (run.sh:3)"),
            ("ok\n./build: line 5: syntax error near unexpected token `fi'", " (./build:5)"),
            ("/p/run.sh: line 9: unexpected EOF while looking for matching `\"'", " (run.sh:9)"),
            ("sh: 1: Syntax error: Unterminated quoted string", ""),
            ("    at node:internal/main.js:28:49", ""),
            ("/other/x.js:3", ""),
        ];
        for (text, want) in rows {
            assert_eq!(told("", text, text, &facts), want, "{text}");
        }
        let warned = "warning: unused import: `Read`\n --> src/main.rs:1:15\n  |\n\nerror[E0599]: no \
                      method named `rea` found\n --> src/main.rs:5:86\n  |\n";
        let key = "error[E0599]: no method named `rea` found";
        assert_eq!(told(key, warned, warned, &facts), " (src/main.rs:5)");
        assert!(PYTEST_FRAME.is_some());
        assert_eq!(PLACES.len(), SHAPES.len());
    }

    #[test]
    fn a_problem_under_the_name_of_its_file_has_its_place() {
        let facts = ProjectFacts { root: "/p".into(), ..ProjectFacts::default() };
        let text = "\n/p/src/a.js\n  3:1   warning  'a' is unused      no-unused\n  \
                    12:5  error    'totl' is not defined  no-undef\n\n/p/src/b.js\n  1:1  error  x\n";
        let key = "12:5  error    'totl' is not defined  no-undef";
        assert_eq!(told(key, text, text, &facts), " (src/a.js:12)");
        let none = "12:5  error  there is no file above";
        assert_eq!(told(none, none, none, &facts), "");
    }

    #[test]
    fn pytest_is_followed_to_the_frame_where_the_fault_is() {
        let facts = ProjectFacts { root: "/p".into(), ..ProjectFacts::default() };
        let raised = "test_cart.py:5: in test_total\n    total([1])\nshop/cart.py:3: in total\n    \
                      return sum(x) / 0\nE   ZeroDivisionError: division by zero\n";
        let long = "    def test_total():\n>       assert total([1, 2]) == 4\nE       assert 3 == 4\n\
                    E        +  where 3 = total([1, 2])\n\ntest_cart.py:5: AssertionError\n\
                    ____ test_other ____\n\nE   assert 1 == 2\n\nother.py:9: AssertionError\n";
        let foreign = "test_a.py:2: in test\n    f()\nshop/a.py:7: in f\n    json.loads(x)\n\
                       /usr/lib/python3.11/json/__init__.py:3: in loads\nE   ValueError: no\n";
        let importing = "ImportError while importing test module '/p/test_x.py'.\n\
                         test_x.py:1: in <module>\n    from shop.cart import total\n\
                         shop/cart.py:1: in <module>\n    import nump\n\
                         E   ModuleNotFoundError: No module named 'nump'\n";
        let chained = "Traceback (most recent call last):\n  File \"/p/a.py\", line 1, in x\n\
                       KeyError: 'a'\n\nDuring handling of the above exception, another exception \
                       occurred:\n\nTraceback (most recent call last):\n  \
                       File \"/p/b.py\", line 9, in y\nValueError: b\n";
        let rows = [
            ("ZeroDivisionError: division by zero", raised, " (shop/cart.py:3)"),
            ("assert 3 == 4", long, " (test_cart.py:5)"),
            ("ValueError: no", foreign, " (shop/a.py:7)"),
            ("ModuleNotFoundError: No module named 'nump'", importing, " (shop/cart.py:1)"),
            ("ValueError: b", chained, " (b.py:9)"),
        ];
        for (key, text, want) in rows {
            assert_eq!(told(key, text, text, &facts), want, "{text}");
        }
    }
}
