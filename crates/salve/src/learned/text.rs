//! Writing the files: what did not change keeps its very text, comments included.

use std::collections::BTreeMap;
use std::path::Path;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::file::LearnedFile;
use super::yaml::{Document, yaml};
use crate::store::LearnedItem;

/// A new text for a file, and whether a comment of the old one has no place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RewrittenText {
    pub(super) text: String,
    pub(super) lost_comments: bool,
}

/// A file's present text, and what it says.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldText<'o> {
    pub(super) text: &'o str,
    pub(super) document: &'o Document,
}

const HEADER: &str = "# Kept by Salve. Edit it freely: changes are read back, comments stay.\n";

/// Writes `items` (and computed `stats`) into the place of those in `old`, if there is an old text.
pub(super) fn write(
    file: LearnedFile,
    items: &[LearnedItem],
    stats: Option<&Value>,
    old: Option<OldText<'_>>,
) -> RewrittenText {
    match file {
        LearnedFile::HealingPatterns => {
            RewrittenText { text: write_json(file, items, old), lost_comments: false }
        }
        LearnedFile::ToolFixes
        | LearnedFile::ToolFailures
        | LearnedFile::Patterns
        | LearnedFile::UsagePatterns => write_yaml(file, items, stats, old),
    }
}

fn write_json(file: LearnedFile, items: &[LearnedItem], old: Option<OldText<'_>>) -> String {
    let items: Vec<_> = items.iter().map(|item| Ordered { file, item }).collect();
    let no_others = Map::new();
    let others = old.map_or(&no_others, |old| &old.document.others);
    let root = Root { root: file.root(), items: &items, others };
    // Strings, numbers, lists and maps with string keys cannot fail to be JSON.
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_default();
    text.push('\n');
    text
}

fn write_yaml(
    file: LearnedFile,
    items: &[LearnedItem],
    stats: Option<&Value>,
    old: Option<OldText<'_>>,
) -> RewrittenText {
    let laid_out = old.and_then(|old| Layout::of(file, old.text, old.document));
    let fresh = || {
        let mut text = format!("{HEADER}{}:", file.root());
        text += if items.is_empty() { " []\n" } else { "\n" };
        items.iter().for_each(|item| text += &item_text(file, item));
        text += &stats.map(|stats| section("stats", stats)).unwrap_or_default();
        for (key, value) in old.iter().flat_map(|old| &old.document.others) {
            text += &section(key, value);
        }
        text
    };
    match laid_out {
        None => {
            let lost_comments = old.is_some_and(|old| old.text.lines().any(has_comment));
            RewrittenText { text: fresh(), lost_comments }
        }
        Some(layout) => {
            RewrittenText { text: layout.write(file, items, stats), lost_comments: false }
        }
    }
}

/// Renders one item as an entry of the list.
fn item_text(file: LearnedFile, item: &LearnedItem) -> String {
    indent(&to_yaml(&[Ordered { file, item }]))
}

fn section(key: &str, value: &Value) -> String {
    to_yaml(&BTreeMap::from([(key, value)]))
}

fn to_yaml(value: &impl Serialize) -> String {
    // As with JSON, these values cannot fail to be written.
    let mut text = serde_saphyr::to_string(value).unwrap_or_default();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn indent(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") };
    text.lines().map(line).collect()
}

/// An item with its keys in the spec's order, then a person's own.
struct Ordered<'a> {
    file: LearnedFile,
    item: &'a LearnedItem,
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = self.file.keys();
        let known = keys.iter().filter_map(|key| self.item.get_key_value(*key));
        let own = self.item.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
        let mut map = serializer.serialize_map(Some(self.item.len()))?;
        for (key, value) in known.chain(own) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

struct Root<'a> {
    root: &'static str,
    items: &'a [Ordered<'a>],
    others: &'a Map<String, Value>,
}

impl Serialize for Root<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.others.len()))?;
        map.serialize_entry(self.root, self.items)?;
        for (key, value) in self.others {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Where the parts of a file's text are.
struct Layout<'a> {
    /// The sections at the top level in order, each with the comments above it.
    sections: Vec<Section<'a>>,
}

struct Section<'a> {
    key: &'a str,
    text: String,
    /// The entries of the list of items: their text and what it says.
    entries: Vec<(String, LearnedItem)>,
}

impl<'a> Layout<'a> {
    /// Finds the parts, or nothing if the text is laid out in a way that is not understood.
    ///
    /// Whether it was understood is not guessed: each entry, read by itself, must say what it said
    /// in the whole file.
    fn of(file: LearnedFile, text: &'a str, document: &Document) -> Option<Self> {
        let mut sections: Vec<Section<'a>> = Vec::new();
        let mut waiting = String::new();
        for line in text.split_inclusive('\n') {
            let plain = line.trim_end();
            let top = !plain.is_empty() && !plain.starts_with([' ', '#', '-']);
            if top {
                let (key, _) = plain.split_once(':')?;
                let text = std::mem::take(&mut waiting) + line;
                sections.push(Section { key, text, entries: Vec::new() });
            } else if plain.is_empty() || plain.starts_with('#') {
                waiting += line;
            } else {
                let section = sections.last_mut()?;
                section.text += &std::mem::take(&mut waiting);
                section.text += line;
            }
        }
        sections.last_mut()?.text += &waiting;
        let list = sections.iter_mut().find(|section| section.key == file.root())?;
        let (head, entries) = split_entries(&list.text)?;
        let said = entries.into_iter().map(|text| {
            let mut items: Vec<LearnedItem> = yaml(Path::new(""), &text).ok()?;
            (items.len() == 1).then(|| items.pop().map(|item| (text, item))).flatten()
        });
        list.entries = said.collect::<Option<_>>()?;
        list.text = head;
        let same = list.entries.iter().map(|(_, item)| item).eq(&document.items);
        same.then_some(Self { sections })
    }

    fn write(self, file: LearnedFile, items: &[LearnedItem], stats: Option<&Value>) -> String {
        let mut text = String::new();
        let mut stats = stats.map(|stats| section("stats", stats));
        for section in self.sections {
            if section.key == file.root() {
                text += &list_text(file, &section, items);
            } else if let Some(stats) = stats.take_if(|_| section.key == "stats") {
                text += &comments(&section.text);
                text += &stats;
            } else {
                text += &section.text;
            }
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text + &stats.unwrap_or_default()
    }
}

/// Writes the list of items into the place of `section`.
fn list_text(file: LearnedFile, section: &Section<'_>, items: &[LearnedItem]) -> String {
    let mut text = section.text.clone();
    if section.entries.is_empty() != items.is_empty() {
        let (above, _) = text.split_at(text.rfind(section.key).unwrap_or_default());
        let none = if items.is_empty() { " []" } else { "" };
        text = format!("{above}{}:{none}\n", section.key);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for item in items {
        let key = file.key_of(item);
        let old = section.entries.iter().find(|(_, old)| file.key_of(old) == key);
        match old {
            Some((old, said)) if said == item => text += old,
            Some((old, _)) => {
                text += &comments(old);
                text += &item_text(file, item);
            }
            None => text += &item_text(file, item),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

/// Parts a list into what stands before the first entry and the entries.
///
/// Comments above an entry belong to it.
fn split_entries(text: &str) -> Option<(String, Vec<String>)> {
    let mut head = String::new();
    let mut entries: Vec<String> = Vec::new();
    let mut waiting = String::new();
    let mut dash = None;
    for line in text.split_inclusive('\n') {
        let plain = line.trim();
        let depth = line.len() - line.trim_start_matches(' ').len();
        if plain.is_empty() || plain.starts_with('#') {
            waiting += line;
        } else if plain.starts_with('-')
            && dash.is_none_or(|dash| dash == depth)
            && !head.is_empty()
        {
            dash = Some(depth);
            entries.push(std::mem::take(&mut waiting) + line);
        } else {
            let part = entries.last_mut().unwrap_or(&mut head);
            *part += &std::mem::take(&mut waiting);
            *part += line;
        }
    }
    match entries.last_mut() {
        Some(last) => *last += &waiting,
        None => head += &waiting,
    }
    Some((head, entries))
}

/// Returns every comment in a text as lines of their own.
fn comments(text: &str) -> String {
    let comment = |line: &str| {
        let at = comment_start(line)?;
        Some(format!("  {}\n", line.get(at..)?.trim_end()))
    };
    text.lines().filter_map(comment).collect()
}

fn has_comment(line: &str) -> bool {
    comment_start(line).is_some_and(|at| line.get(at..) != Some(HEADER.trim_end()))
}

/// Returns where a line's comment starts: at a `#` after white space and outside quotes.
///
/// A `#` in text that goes over several lines is taken for a comment: one kept too many.
fn comment_start(line: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open && before != '\\' => quote = None,
            Some(_) => {}
            None if c == '#' && before.is_whitespace() => return Some(at),
            None if (c == '"' || c == '\'') && !before.is_alphanumeric() => quote = Some(c),
            None => {}
        }
        before = c;
    }
    None
}
