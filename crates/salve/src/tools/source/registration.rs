//! Where a file registers a tool, found in its syntax tree.
//!
//! Frameworks differ, but what they write down is alike: a function with a decorator or attribute
//! that speaks of a tool, a call or a value of a type that does (`registerTool`, `NewTool`,
//! `Tool { name: … }`), and a branch that compares the name. One walk finds all of them, because the
//! names of the grammars' nodes do not contradict one another.

use std::ops::Range;

use tree_sitter::{Language, Node, Parser};

/// How far up from a name one looks for what it registers.
const HIGHEST: usize = 12;

/// Calls, and values that are made like calls.
const CALLS: [&str; 5] =
    ["call", "call_expression", "new_expression", "composite_literal", "struct_expression"];
/// Branches by a value.
const BRANCHES: [&str; 7] = [
    "switch_case",
    "expression_case",
    "case_clause",
    "match_arm",
    "if_statement",
    "if_expression",
    "elif_clause",
];
/// Whatever a name in it does not belong to any more.
const BOUNDS: [&str; 9] = [
    "function_definition",
    "function_declaration",
    "function_item",
    "method_declaration",
    "method_definition",
    "arrow_function",
    "func_literal",
    "block",
    "statement_block",
];
const STRINGS: [&str; 5] = [
    "string",
    "string_literal",
    "raw_string_literal",
    "interpreted_string_literal",
    "template_string",
];
const FUNCTIONS: [&str; 6] = [
    "function_definition",
    "function_declaration",
    "function_item",
    "method_declaration",
    "method_definition",
    "variable_declarator",
];

/// A language that tools are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceLanguage {
    Python,
    TypeScript,
    Rust,
    Go,
}

impl SourceLanguage {
    /// Returns the language of a file by the end of its name.
    pub(super) fn of(extension: &str) -> Option<Self> {
        Some(match extension {
            "py" => Self::Python,
            "ts" | "tsx" | "mts" | "cts" | "js" | "jsx" | "mjs" | "cjs" => Self::TypeScript,
            "rs" => Self::Rust,
            "go" => Self::Go,
            _ => return None,
        })
    }

    fn grammar(self) -> Language {
        match self {
            Self::Python => tree_sitter_python::LANGUAGE,
            // It reads plain TypeScript and JavaScript, too.
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TSX,
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
        }
        .into()
    }
}

/// How surely a piece of code is the tool's; the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PieceKind {
    /// A function that its decorator or attribute makes a tool.
    Decorated,
    /// A call or a value that registers it, or what handles it.
    Registered,
    /// A branch for its name.
    Branch,
    /// Only a function of its name.
    SameName,
}

/// A piece of a file that is about a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourcePiece {
    pub(super) kind: PieceKind,
    pub(super) bytes: Range<usize>,
}

/// Returns the pieces of a file that are about a tool, in the order of the file; no two overlap.
pub(super) fn pieces(language: SourceLanguage, text: &str, tool: &str) -> Vec<SourcePiece> {
    let mut parser = Parser::new();
    if parser.set_language(&language.grammar()).is_err() {
        return Vec::new();
    }
    let Some(tree) = parser.parse(text, None) else { return Vec::new() };
    let search = RegistrationSearch { text };
    let mut found = Vec::new();
    search.each(tree.root_node(), &mut |node| {
        if STRINGS.contains(&node.kind()) && search.quoted(node) == tool {
            search.registered_by(node, tree.root_node(), &mut found);
        } else if FUNCTIONS.contains(&node.kind()) && search.name_of(node) == Some(tool) {
            found.push(search.function(node));
        }
    });
    for piece in &mut found {
        // Some grammars count the line's end in.
        let code = text.get(piece.bytes.clone()).unwrap_or_default();
        piece.bytes.end = piece.bytes.start + code.trim_end().len();
    }
    disjoint(found)
}

struct RegistrationSearch<'t> {
    text: &'t str,
}

impl<'t> RegistrationSearch<'t> {
    fn each<'n>(&self, root: Node<'n>, see: &mut dyn FnMut(Node<'n>)) {
        let mut cursor = root.walk();
        loop {
            see(cursor.node());
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
            }
        }
    }

    fn of(&self, node: Node<'_>) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// Returns what a string literal says.
    fn quoted(&self, node: Node<'_>) -> &'t str {
        let text = self.of(node).trim_start_matches(['r', 'b', 'u', 'f', '#']);
        text.trim_end_matches('#').trim_matches(['"', '\'', '`'])
    }

    fn name_of(&self, function: Node<'_>) -> Option<&'t str> {
        function.child_by_field_name("name").map(|name| self.of(name))
    }

    /// Returns a function of the tool's name, with what stands above it.
    fn function(&self, node: Node<'_>) -> SourcePiece {
        let whole = with_decorators(node);
        let above = self.text.get(whole.start..node.start_byte()).unwrap_or_default();
        let is_tool = speaks_of_tools(above);
        let kind = if is_tool { PieceKind::Decorated } else { PieceKind::SameName };
        SourcePiece { kind, bytes: whole }
    }

    /// Adds what a string with the tool's name belongs to.
    fn registered_by(&self, name: Node<'_>, root: Node<'_>, found: &mut Vec<SourcePiece>) {
        let mut node = name;
        for _ in 0..HIGHEST {
            let Some(parent) = node.parent() else { return };
            let kind = parent.kind();
            if matches!(kind, "decorator" | "attribute_item") {
                if speaks_of_tools(self.of(parent)) {
                    found.extend(self.decorated(parent));
                }
                return;
            }
            if CALLS.contains(&kind) && speaks_of_tools(self.made(parent)) {
                return self.registration(parent, root, found);
            }
            if BRANCHES.contains(&kind) {
                let fields = ["condition", "pattern", "value"];
                let chooses = fields.iter().find_map(|field| parent.child_by_field_name(field));
                let chooses = chooses.or_else(|| parent.named_child(0));
                if chooses.is_some_and(|choice| contains(choice, name)) {
                    let kind = PieceKind::Branch;
                    found.push(SourcePiece { kind, bytes: parent.byte_range() });
                }
                return;
            }
            if is_named_member(self, parent, name) {
                // `{ name: "x", … }` in a list of tools; a call around it says more.
                let inside = parent.parent().filter(|object| !BOUNDS.contains(&object.kind()));
                let made = inside.and_then(|object| self.call_around(object)).or(inside);
                if let Some(made) = made {
                    self.registration(made, root, found);
                }
                return;
            }
            if BOUNDS.contains(&kind) {
                return;
            }
            node = parent;
        }
    }

    /// Adds what registers the tool, with what handles it.
    fn registration(&self, inner: Node<'_>, root: Node<'_>, found: &mut Vec<SourcePiece>) {
        let mut made = inner;
        while let Some(outer) = self.call_around(made) {
            made = outer;
        }
        if let Some(decorator) = made.parent().filter(|above| above.kind() == "decorator") {
            found.extend(self.decorated(decorator));
            return;
        }
        found.push(SourcePiece { kind: PieceKind::Registered, bytes: made.byte_range() });
        self.handlers(made, root, found);
    }

    /// Returns what a call calls, or which type a value has.
    fn made(&self, call: Node<'_>) -> &'t str {
        let fields = ["function", "constructor", "type", "name"];
        let called = fields.iter().find_map(|field| call.child_by_field_name(field));
        let text = called.map(|called| self.of(called)).unwrap_or_default();
        text.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the call that speaks of tools and that a node is in, in the same statement.
    fn call_around<'n>(&self, from: Node<'n>) -> Option<Node<'n>> {
        let mut node = from;
        for _ in 0..HIGHEST {
            node = node.parent()?;
            if BOUNDS.contains(&node.kind()) {
                return None;
            }
            if CALLS.contains(&node.kind()) && speaks_of_tools(self.made(node)) {
                return Some(node);
            }
        }
        None
    }

    /// Returns the function that a decorator or attribute stands above.
    fn decorated(&self, above: Node<'_>) -> Option<SourcePiece> {
        let parent = above.parent()?;
        if parent.kind() == "decorated_definition" {
            let bytes = parent.byte_range();
            return Some(SourcePiece { kind: PieceKind::Decorated, bytes });
        }
        let mut next = above.next_named_sibling()?;
        while !FUNCTIONS.contains(&next.kind()) {
            next = next.next_named_sibling()?;
        }
        let bytes = above.start_byte()..next.end_byte();
        Some(SourcePiece { kind: PieceKind::Decorated, bytes })
    }

    /// Adds the functions that a registration names: among its own words, or where the variable is
    /// used that it is kept in.
    fn handlers(&self, made: Node<'_>, root: Node<'_>, found: &mut Vec<SourcePiece>) {
        let mut names = self.words_of(made);
        if let Some(kept) = self.variable(made) {
            self.each(root, &mut |call| {
                if CALLS.contains(&call.kind()) && speaks_of_tools(self.made(call)) {
                    let words = self.words_of(call);
                    if words.contains(&kept) {
                        names.extend(words);
                    }
                }
            });
        }
        self.each(root, &mut |node| {
            let is_meant = FUNCTIONS.contains(&node.kind())
                && self.name_of(node).is_some_and(|name| names.contains(&name))
                && !(node.start_byte() <= made.start_byte() && made.end_byte() <= node.end_byte());
            if is_meant && is_function(node) {
                let kind = PieceKind::Registered;
                found.push(SourcePiece { kind, bytes: with_decorators(node) });
            }
        });
    }

    /// Returns the plain names among the arguments of a call.
    fn words_of(&self, call: Node<'_>) -> Vec<&'t str> {
        let arguments = call.child_by_field_name("arguments").unwrap_or(call);
        let mut cursor = arguments.walk();
        let named = arguments.named_children(&mut cursor);
        let plain = |node: Node<'_>| match node.kind() {
            "identifier" => Some(self.of(node)),
            "selector_expression" | "member_expression" | "attribute" | "field_expression" => {
                self.of(node).rsplit('.').next()
            }
            "keyword_argument" | "pair" => node
                .child_by_field_name("value")
                .filter(|value| value.kind() == "identifier")
                .map(|value| self.of(value)),
            _ => None,
        };
        named.filter_map(plain).collect()
    }

    /// Returns the name of the variable that a value is kept in.
    fn variable(&self, value: Node<'_>) -> Option<&'t str> {
        let mut node = value;
        for _ in 0..3 {
            node = node.parent()?;
            let name = match node.kind() {
                "short_var_declaration" | "assignment_statement" | "assignment" => {
                    node.child_by_field_name("left")
                }
                "variable_declarator" | "var_spec" => node.child_by_field_name("name"),
                "let_declaration" => node.child_by_field_name("pattern"),
                _ => None,
            };
            if let Some(name) = name {
                return Some(self.of(name).trim());
            }
        }
        None
    }
}

/// Tells whether a text names tools: by the word, or as a part of a name.
fn speaks_of_tools(text: &str) -> bool {
    text.to_ascii_lowercase().contains("tool")
}

fn contains(outer: Node<'_>, inner: Node<'_>) -> bool {
    outer.start_byte() <= inner.start_byte() && inner.end_byte() <= outer.end_byte()
}

/// Tells whether a node gives the tool's name to a member that is called `name`.
fn is_named_member(search: &RegistrationSearch<'_>, node: Node<'_>, value: Node<'_>) -> bool {
    if !matches!(node.kind(), "pair" | "keyed_element" | "field_initializer" | "keyword_argument") {
        return false;
    }
    let key = node
        .child_by_field_name("key")
        .or_else(|| node.child_by_field_name("field"))
        .or_else(|| node.child_by_field_name("name"))
        .or_else(|| node.named_child(0));
    key.is_some_and(|key| {
        let text = search.of(key).trim_matches(['"', '\'']);
        !contains(key, value) && text.eq_ignore_ascii_case("name")
    })
}

/// Tells whether a node is a function, and not another variable of that name.
fn is_function(node: Node<'_>) -> bool {
    node.kind() != "variable_declarator"
        || node.child_by_field_name("value").is_some_and(|value| {
            matches!(value.kind(), "arrow_function" | "function_expression" | "function")
        })
}

/// Returns where a function is, with the decorators, attributes and comments above it.
fn with_decorators(function: Node<'_>) -> Range<usize> {
    let whole = function
        .parent()
        .filter(|parent| {
            matches!(
                parent.kind(),
                "decorated_definition" | "lexical_declaration" | "export_statement"
            )
        })
        .unwrap_or(function);
    let mut first = whole;
    while let Some(above) = first.prev_named_sibling() {
        let is_above = matches!(above.kind(), "attribute_item" | "decorator" | "line_comment");
        if !is_above {
            break;
        }
        first = above;
    }
    first.start_byte()..whole.end_byte()
}

/// Puts pieces in the order of the file and leaves out those that are in others; what is kept is
/// as sure as the surest of what it holds.
fn disjoint(mut found: Vec<SourcePiece>) -> Vec<SourcePiece> {
    found.sort_by_key(|piece| (piece.bytes.start, std::cmp::Reverse(piece.bytes.end)));
    let mut kept: Vec<SourcePiece> = Vec::new();
    for piece in found {
        match kept.last_mut() {
            Some(last) if piece.bytes.end <= last.bytes.end => {
                last.kind = last.kind.min(piece.kind)
            }
            _ => kept.push(piece),
        }
    }
    kept
}
