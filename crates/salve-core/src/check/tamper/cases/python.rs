//! Tests in Python, as pytest and unittest collect them.

use super::super::text::SourceText;
use super::{MOST, Test};

/// A block that later lines may stand in.
struct Block {
    indent: usize,
    /// The class's name, if tests in it are collected.
    class: Option<String>,
    /// Whether tests in it are collected.
    collects: bool,
}

/// Returns the tests of a file.
pub(super) fn tests(source: &SourceText<'_>) -> Vec<Test> {
    let mut found: Vec<Test> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut marks: Option<(usize, Vec<String>)> = None;
    let mut at = 0;
    for line in source.bare.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let code = line.trim();
        // What stands in brackets may be indented as it likes.
        if code.is_empty() || code.starts_with([')', ']', '}']) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        while open.last().and_then(|test| found.get(*test)).is_some_and(|t| t.body.end >= indent) {
            close(&mut found, &mut open, start);
        }
        blocks.retain(|block| block.indent < indent);
        if code.starts_with('@') {
            let said = source.said[start..at].trim().to_owned();
            marks.get_or_insert((start, Vec::new())).1.push(said);
            continue;
        }
        let def = code.strip_prefix("async def ").or_else(|| code.strip_prefix("def "));
        if let Some(name) = def.map(name) {
            let collected = blocks.iter().all(|block| block.collects);
            let (from, marks) = marks.take().unwrap_or((start, Vec::new()));
            if name.starts_with("test") && collected && found.len() < MOST {
                let class = blocks.iter().rev().find_map(|block| block.class.as_deref());
                let name = class.map_or(name.to_owned(), |class| format!("{class}::{name}"));
                open.push(found.len());
                // The indent is kept where the body's end will be, until that is known.
                found.push(Test { name, start: from, body: at..indent, marks, group: false });
            }
            blocks.push(Block { indent, class: None, collects: false });
        } else if let Some(rest) = code.strip_prefix("class ") {
            let name = name(rest);
            let collects = name.starts_with("Test") || rest.contains("TestCase");
            let (from, marks) = marks.take().unwrap_or((start, Vec::new()));
            open.push(found.len());
            let name = name.to_owned();
            let class = Some(name.clone());
            found.push(Test { name, start: from, body: at..indent, marks, group: true });
            blocks.push(Block { indent, class, collects });
        } else {
            marks = None;
            if is_dead(code) {
                blocks.push(Block { indent, class: None, collects: false });
            }
        }
    }
    while !open.is_empty() {
        close(&mut found, &mut open, at);
    }
    found
}

/// Ends the innermost open test before `end`.
fn close(found: &mut [Test], open: &mut Vec<usize>, end: usize) {
    if let Some(test) = open.pop().and_then(|test| found.get_mut(test)) {
        test.body.end = end.max(test.body.start);
    }
}

fn name(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

/// Tells whether what stands below a line never runs.
pub(in super::super) fn is_dead(code: &str) -> bool {
    let Some(condition) = code.strip_prefix("if ").or_else(|| code.strip_prefix("while ")) else {
        return false;
    };
    let condition = condition.trim_end_matches(':').trim().trim_matches(['(', ')']);
    matches!(condition, "False" | "0" | "None" | "not True" | "\"\"" | "''")
}
