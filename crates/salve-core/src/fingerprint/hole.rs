//! The types of a shape's holes: which text fits, and which part of it identifies.

use super::essence;
use super::lexer;
use super::path;
use super::table::pattern::HoleKind;

impl HoleKind {
    /// Returns whether the hole holds a number.
    pub(crate) fn is_number(self) -> bool {
        self == HoleKind::Port || self == HoleKind::Num
    }

    /// Returns whether `c` may stand in the hole.
    fn allows(self, c: char) -> bool {
        match self {
            HoleKind::Any | HoleKind::Rest => true,
            HoleKind::Word | HoleKind::Path | HoleKind::Dir | HoleKind::Package => {
                !c.is_whitespace() && c != '\''
            }
            HoleKind::Name | HoleKind::Module => {
                c.is_alphanumeric()
                    || matches!(c, '_' | '.' | '@' | '/' | '+' | ':' | '-' | '~' | '\\' | '#' | '$')
            }
            HoleKind::Port | HoleKind::Num => c.is_ascii_digit(),
            HoleKind::Version => {
                c.is_ascii_alphanumeric()
                    || matches!(c, '.' | '-' | '+' | '_' | '^' | '~' | '*' | '=')
            }
            HoleKind::Host => {
                c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']' | '*' | '%')
            }
            HoleKind::Code => c.is_ascii_alphanumeric() || matches!(c, '_' | '-'),
        }
    }

    /// Returns whether the whole `text` fits.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            HoleKind::Any | HoleKind::Rest => !text.trim().is_empty(),
            HoleKind::Port => matches!(text.parse::<u32>(), Ok(1..=65535)) && text.len() <= 5,
            HoleKind::Version => {
                let bare = text.trim_start_matches(['^', '~', '=', 'v', 'V']);
                bare.starts_with(|c: char| c.is_ascii_digit()) || text == "*"
            }
            HoleKind::Name | HoleKind::Module => text.chars().any(char::is_alphanumeric),
            HoleKind::Package => path::package(text).is_some(),
            HoleKind::Word
            | HoleKind::Num
            | HoleKind::Path
            | HoleKind::Dir
            | HoleKind::Host
            | HoleKind::Code => !text.is_empty(),
        }
    }

    /// Returns the part of `text` that identifies.
    pub(crate) fn value(self, text: &str) -> String {
        match self {
            HoleKind::Any => trim_end(short(text.trim())).to_owned(),
            HoleKind::Word | HoleKind::Version | HoleKind::Code => trim_end(text).to_owned(),
            HoleKind::Name => without_version(trim_end(text)).to_owned(),
            HoleKind::Port | HoleKind::Num => text.to_owned(),
            HoleKind::Module => module(trim_end(text)).to_owned(),
            HoleKind::Path => path::base(trim_end(text)).to_owned(),
            HoleKind::Dir => String::new(),
            HoleKind::Package => path::package(text).unwrap_or_default().replace('\\', "/"),
            HoleKind::Host => host(text),
            HoleKind::Rest => lexer::mask(trim_end(essence::opening(short(text.trim())))),
        }
    }
}

/// Returns the shortest and the longest end of a run of `kind` that starts at `at`.
///
/// Equal ends say that the run may not be cut: a number is never half a number.
pub(crate) fn run_forward(kind: HoleKind, line: &str, at: usize) -> (usize, usize) {
    let tail = &line[at..];
    let quoted = at > 0 && line.as_bytes()[at - 1] == b'\'';
    let most = match kind {
        HoleKind::Path | HoleKind::Dir | HoleKind::Package if quoted => tail.find('\''),
        _ => tail.find(|c| !kind.allows(c)),
    };
    let most = at + most.unwrap_or(tail.len());
    let whole = match kind {
        HoleKind::Port | HoleKind::Num => true,
        HoleKind::Path | HoleKind::Dir | HoleKind::Package => quoted,
        HoleKind::Any
        | HoleKind::Word
        | HoleKind::Name
        | HoleKind::Module
        | HoleKind::Version
        | HoleKind::Host
        | HoleKind::Code
        | HoleKind::Rest => false,
    };
    (if whole { most } else { at + 1 }, most)
}

/// Returns whether what follows a number makes it part of something longer: `1:4321`, `1.5`, `1a`.
pub(crate) fn goes_on(rest: &str) -> bool {
    let mut bytes = rest.bytes();
    match bytes.next() {
        Some(b':' | b'.') => bytes.next().is_some_and(|b| b.is_ascii_digit()),
        Some(byte) => byte.is_ascii_alphanumeric() || byte == b'_',
        None => false,
    }
}

/// Returns where a run of `kind` that ends at `end` starts.
pub(crate) fn run_back(kind: HoleKind, line: &str, end: usize) -> usize {
    let head = &line[..end];
    match kind {
        HoleKind::Any | HoleKind::Rest => 0,
        _ => head
            .rfind(|c| !kind.allows(c))
            .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8)),
    }
}

/// Cuts a long text where it varies more than it identifies.
fn short(text: &str) -> &str {
    const LONGEST: usize = 240;
    let end = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// Cuts punctuation that ends a sentence rather than a name; brackets and quotes that were opened
/// stay closed.
pub(crate) fn trim_end(text: &str) -> &str {
    let mut rest = text;
    while let Some(last) = rest.chars().next_back() {
        let opened = |open: char| rest.matches(open).count() >= rest.matches(last).count();
        let cut = match last {
            '.' | ',' | ';' | ':' | '!' | '?' | ' ' | '…' => true,
            ')' => !opened('('),
            ']' => !opened('['),
            '}' => !opened('{'),
            '\'' => rest.matches('\'').count() % 2 == 1,
            _ => false,
        };
        if !cut {
            break;
        }
        rest = &rest[..rest.len() - last.len_utf8()];
    }
    if rest.is_empty() { text } else { rest }
}

/// Returns a package's own name, or the base name of a path.
fn module(text: &str) -> &str {
    let bytes = text.as_bytes();
    let drive = bytes.len() > 2 && bytes[1] == b':' && matches!(bytes[2], b'\\' | b'/');
    let path = text.starts_with(['.', '/', '\\', '~']) || drive || text.starts_with("file:");
    if path { path::base(text) } else { text }
}

/// Returns a name without the version behind it, as in `rail@v1.2.0` and `rail-1.2.0-x86_64`.
///
/// The version of what is missing or broken varies; what it is called does not.
fn without_version(name: &str) -> &str {
    let numbered = |text: &str| {
        let text = text.trim_start_matches(['v', '^', '~', '=', '<', '>']);
        text.starts_with(|c: char| c.is_ascii_digit())
    };
    if let Some((own, version)) = name.rsplit_once('@')
        && !own.is_empty()
        && numbered(version)
    {
        return own;
    }
    let release = |text: &str| {
        let (version, platform) = text.split_once('-').unwrap_or((text, ""));
        const PLATFORMS: [&str; 7] = ["x86", "x64", "arm", "aarch", "java", "linux", "darwin"];
        let built = platform.is_empty() || PLATFORMS.iter().any(|name| platform.starts_with(name));
        let dotted =
            version.matches('.').count() > 1 && version.starts_with(|c: char| c.is_ascii_digit());
        dotted && built && version.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.')
    };
    let ends = name.match_indices('-').find(|(at, _)| *at > 0 && release(&name[at + 1..]));
    ends.map_or(name, |(at, _)| &name[..at])
}

/// Returns the host, with every name of this machine as `local`.
fn host(text: &str) -> String {
    let bare = text.trim_matches(['[', ']', '.']);
    let bare =
        bare.strip_suffix(':').filter(|rest| rest.contains(char::is_alphanumeric)).unwrap_or(bare);
    match bare {
        "localhost" | "127.0.0.1" | "::1" | "0.0.0.0" | "::" | "" | ":" | "*"
        | "::ffff:127.0.0.1" => "local".to_owned(),
        other => other.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_without_its_version() {
        for (name, want) in [
            ("nokogiri-1.13.9", "nokogiri"),
            ("nokogiri-1.15.2-x86_64-linux", "nokogiri"),
            ("example.org/rail@v1.2.0", "example.org/rail"),
            ("@shop/rail@^3.1.0", "@shop/rail"),
            ("@shop/rail", "@shop/rail"),
            ("libssl1.1", "libssl1.1"),
            ("webkit2gtk-4.1", "webkit2gtk-4.1"),
            ("java-1.8.0-openjdk", "java-1.8.0-openjdk"),
            ("rail-2", "rail-2"),
            ("me@host", "me@host"),
        ] {
            assert_eq!(HoleKind::Name.value(name), want, "{name}");
        }
    }

    #[test]
    fn the_rest_of_a_line_ends_with_its_first_sentence() {
        let want = HoleKind::Rest.value("the rail is bent beyond all repair");
        for tail in ["", ". Find more at https://rail.dev/bent", ". Did you mean 'trail'?"] {
            assert_eq!(
                HoleKind::Rest.value(&format!("the rail is bent beyond all repair{tail}")),
                want
            );
        }
    }
}
