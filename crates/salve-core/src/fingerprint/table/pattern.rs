//! The shape language as it is written: literal text with typed holes.

use std::str::FromStr;

use super::flat::{Ends, flatten_into};

/// The shortest literal that a shape may rest on.
pub(crate) const MIN_LITERAL: usize = 4;

/// What may stand in a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoleKind {
    /// Anything up to the next literal.
    Any,
    /// No white space, no quotes.
    Word,
    /// A package or identifier.
    Name,
    /// A package, or a path whose base name counts.
    Module,
    /// A port number.
    Port,
    /// Digits.
    Num,
    Version,
    /// A file path whose base name counts.
    Path,
    /// A path that does not count.
    Dir,
    /// A path inside an installed package, whose name counts.
    Package,
    /// A host name or address.
    Host,
    /// Letters, digits, `_` and `-`.
    Code,
    /// The rest of the line, masked.
    Rest,
}

impl FromStr for HoleKind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Ok(match name {
            "word" => HoleKind::Word,
            "name" => HoleKind::Name,
            "module" => HoleKind::Module,
            "port" => HoleKind::Port,
            "num" => HoleKind::Num,
            "version" => HoleKind::Version,
            "path" => HoleKind::Path,
            "dir" => HoleKind::Dir,
            "package" => HoleKind::Package,
            "host" => HoleKind::Host,
            "code" => HoleKind::Code,
            "rest" => HoleKind::Rest,
            _ => return Err(()),
        })
    }
}

impl HoleKind {
    /// Returns whether only the next literal says where the hole ends.
    pub(crate) fn is_open(self) -> bool {
        match self {
            HoleKind::Any | HoleKind::Rest => true,
            HoleKind::Word
            | HoleKind::Name
            | HoleKind::Module
            | HoleKind::Port
            | HoleKind::Num
            | HoleKind::Version
            | HoleKind::Path
            | HoleKind::Dir
            | HoleKind::Package
            | HoleKind::Host
            | HoleKind::Code => false,
        }
    }
}

/// Why a shape cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A `{` has no `}`.
    #[error("`{{` is never closed")]
    Unclosed,
    /// A hole's type is not one of the known ones.
    #[error("unknown hole type `{0}`")]
    UnknownType(String),
    /// A hole has no name.
    #[error("a hole needs a name")]
    Unnamed,
    /// Two open holes touch, so that nothing says where the first ends.
    #[error("nothing separates the hole `{0}` from the next one")]
    Touching(String),
    /// No literal is long enough to look for.
    #[error("a shape needs at least {MIN_LITERAL} bytes of literal text in a row")]
    NoLiteral,
}

/// Whether the case of ASCII letters matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetterCase {
    /// It does.
    Exact,
    /// It does not; literals are kept in lower case.
    Any,
}

/// One piece of a shape.
#[derive(Debug)]
pub(crate) enum PatternPiece {
    /// Text that stands there, flat.
    Literal(String),
    /// Anything or nothing.
    Skip,
    /// A named gap.
    Hole(Hole),
}

/// A named gap in a shape.
#[derive(Debug)]
pub(crate) struct Hole {
    pub(crate) name: Box<str>,
    pub(crate) kind: HoleKind,
}

/// A parsed shape.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) pieces: Vec<PatternPiece>,
    /// Whether it stands at the start of a line or its message.
    pub(crate) at_start: bool,
    /// Whether nothing follows it.
    pub(crate) at_end: bool,
    pub(crate) case: LetterCase,
}

impl Pattern {
    /// Parses a shape that a line is searched for.
    pub(crate) fn anchored(source: &str, case: LetterCase) -> Result<Self, ShapeError> {
        let pattern = Self::parse(source, case)?;
        let long = pattern.literals().any(|literal| literal.len() >= MIN_LITERAL);
        if long { Ok(pattern) } else { Err(ShapeError::NoLiteral) }
    }

    /// Parses a shape that is tried on given lines only, and needs no long literal.
    pub(crate) fn parse(source: &str, case: LetterCase) -> Result<Self, ShapeError> {
        let (at_start, source) = match source.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, source),
        };
        let (at_end, source) = match source.strip_suffix('$') {
            Some(rest) => (true, rest),
            None => (false, source),
        };
        let mut pieces = pieces(source, case)?;
        if !at_start && matches!(pieces.first(), Some(PatternPiece::Skip)) {
            pieces.remove(0);
        }
        check_gaps(&pieces)?;
        Ok(Self { pieces, at_start, at_end, case })
    }

    /// Returns the literals, in order.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            PatternPiece::Literal(text) => Some(text.as_str()),
            PatternPiece::Skip | PatternPiece::Hole(_) => None,
        })
    }

    /// Returns the names of the holes, in order.
    pub(crate) fn holes(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            PatternPiece::Hole(hole) => Some(&*hole.name),
            PatternPiece::Literal(_) | PatternPiece::Skip => None,
        })
    }
}

/// Splits `source` into literals and holes.
fn pieces(source: &str, case: LetterCase) -> Result<Vec<PatternPiece>, ShapeError> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = source;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, tail) = rest.split_at(at);
        literal.push_str(before);
        if tail.starts_with("{{") || tail.starts_with("}}") {
            literal.push_str(&tail[..1]);
            rest = &tail[2..];
        } else if let Some(after) = tail.strip_prefix('}') {
            literal.push('}');
            rest = after;
        } else {
            let end = tail.find('}').ok_or(ShapeError::Unclosed)?;
            push_literal(&mut pieces, &mut literal, case);
            pieces.push(hole(&tail[1..end])?);
            rest = &tail[end + 1..];
        }
    }
    literal.push_str(rest);
    push_literal(&mut pieces, &mut literal, case);
    Ok(pieces)
}

fn push_literal(pieces: &mut Vec<PatternPiece>, literal: &mut String, case: LetterCase) {
    if literal.is_empty() {
        return;
    }
    let mut flat = String::with_capacity(literal.len());
    flatten_into(literal, &mut flat, Ends::Kept);
    match case {
        LetterCase::Exact => {}
        LetterCase::Any => flat.make_ascii_lowercase(),
    }
    pieces.push(PatternPiece::Literal(flat));
    literal.clear();
}

fn hole(inside: &str) -> Result<PatternPiece, ShapeError> {
    if inside == ".." {
        return Ok(PatternPiece::Skip);
    }
    let (name, kind) = match inside.split_once(':') {
        Some((name, kind)) => {
            (name, kind.parse().map_err(|()| ShapeError::UnknownType(kind.to_owned()))?)
        }
        None => (inside, HoleKind::Any),
    };
    if name.is_empty() {
        return Err(ShapeError::Unnamed);
    }
    Ok(PatternPiece::Hole(Hole { name: name.into(), kind }))
}

fn check_gaps(pieces: &[PatternPiece]) -> Result<(), ShapeError> {
    for pair in pieces.windows(2) {
        if let [PatternPiece::Hole(hole), PatternPiece::Hole(_) | PatternPiece::Skip] = pair
            && hole.kind.is_open()
        {
            return Err(ShapeError::Touching(hole.name.to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_shapes_say_why() {
        let error = |source| Pattern::parse(source, LetterCase::Exact).unwrap_err();
        assert_eq!(error("{a"), ShapeError::Unclosed);
        assert_eq!(error("four {a:nope}"), ShapeError::UnknownType("nope".into()));
        assert_eq!(error("four {}"), ShapeError::Unnamed);
        assert_eq!(error("four {a}{b}"), ShapeError::Touching("a".into()));
        assert_eq!(
            Pattern::anchored("abc{a}", LetterCase::Exact).unwrap_err(),
            ShapeError::NoLiteral
        );
    }
}
