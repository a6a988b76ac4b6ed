//! Text of a settings file to a tree with places: TOML and JSON, one shape.
//!
//! Neither parser recurses beyond its own limit, and neither message repeats what the file
//! says: a link may lead to a file full of secrets.

use std::borrow::Cow;
use std::sync::Arc;

use jsonc_parser::ast;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{ConfigProblem, shown};
use super::tree::{SettingEntry, SettingNode, SettingsTable, SettingsText, Value, ValueOrigin};

/// The most problems reported at once.
pub(super) const MOST_PROBLEMS: usize = 20;

/// Reads a file as TOML.
pub(super) fn toml(file: &Arc<SettingsText>) -> Result<SettingNode, Vec<ConfigProblem>> {
    SettingsReader { file, problems: Vec::new() }.toml()
}

/// Reads a file as JSON.
pub(super) fn json(file: &Arc<SettingsText>) -> Result<SettingNode, Vec<ConfigProblem>> {
    SettingsReader { file, problems: Vec::new() }.json()
}

struct SettingsReader<'a> {
    file: &'a Arc<SettingsText>,
    problems: Vec<ConfigProblem>,
}

impl SettingsReader<'_> {
    fn toml(mut self) -> Result<SettingNode, Vec<ConfigProblem>> {
        let (table, errors) = DeTable::parse_recoverable(self.file.text());
        for error in errors.iter().take(MOST_PROBLEMS) {
            self.complain(error.span().map_or(0, |span| span.start), error.message());
        }
        let value = if self.problems.is_empty() {
            self.toml_table(table.get_ref())
        } else {
            Value::Other("a file with mistakes")
        };
        let origin = self.origin_of(0);
        self.finish(SettingNode { value, origin })
    }

    fn json(mut self) -> Result<SettingNode, Vec<ConfigProblem>> {
        let strict = jsonc_parser::ParseOptions {
            allow_comments: false,
            allow_loose_object_property_names: false,
            allow_trailing_commas: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let file = Arc::clone(self.file);
        let node = match jsonc_parser::parse_to_ast(file.text(), &Default::default(), &strict) {
            Ok(jsonc_parser::ParseResult { value: Some(value), .. }) => self.json_value(&value),
            Ok(_) => SettingNode { value: Value::Other("nothing"), origin: self.origin_of(0) },
            Err(error) => {
                self.complain(error.range().start, &error.kind().to_string());
                return Err(self.problems);
            }
        };
        if !matches!(node.value, Value::Table(_)) {
            let message = format!("expected a JSON object, found {}", node.value.kind());
            self.problems.push(ConfigProblem::at(&node.origin, "", message));
        }
        self.finish(node)
    }

    fn finish(mut self, node: SettingNode) -> Result<SettingNode, Vec<ConfigProblem>> {
        self.problems.truncate(MOST_PROBLEMS);
        if self.problems.is_empty() { Ok(node) } else { Err(self.problems) }
    }

    fn toml_table(&mut self, table: &DeTable<'_>) -> Value {
        let entry = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            let origin = self.origin_of(key.span().start);
            let node = self.toml_value(value);
            (key.get_ref().clone().into_owned(), SettingEntry { key: origin, node })
        };
        Value::Table(table.iter().map(entry).collect())
    }

    fn toml_value(&mut self, value: &Spanned<DeValue<'_>>) -> SettingNode {
        let start = value.span().start;
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.clone().into_owned()),
            DeValue::Boolean(b) => Value::Bool(*b),
            DeValue::Integer(digits) => {
                let number = i64::from_str_radix(digits.as_str(), digits.radix());
                self.number(number.ok().map(Value::Integer), start)
            }
            DeValue::Float(digits) => {
                self.number(digits.as_str().parse().ok().map(Value::Float), start)
            }
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Array(items) => {
                Value::List(items.iter().map(|item| self.toml_value(item)).collect())
            }
            DeValue::Table(table) => self.toml_table(table),
        };
        SettingNode { value, origin: self.origin_of(start) }
    }

    fn json_value(&mut self, value: &ast::Value<'_>) -> SettingNode {
        let (start, value) = match value {
            ast::Value::StringLit(lit) => {
                (lit.range.start, Value::Text(lit.value.clone().into_owned()))
            }
            ast::Value::BooleanLit(lit) => (lit.range.start, Value::Bool(lit.value)),
            ast::Value::NullKeyword(lit) => (lit.range.start, Value::Other("null")),
            ast::Value::NumberLit(lit) => {
                let number = if lit.value.contains(['.', 'e', 'E']) {
                    lit.value.parse().ok().map(Value::Float)
                } else {
                    lit.value.parse().ok().map(Value::Integer)
                };
                (lit.range.start, self.number(number, lit.range.start))
            }
            ast::Value::Array(list) => {
                let items = list.elements.iter().map(|item| self.json_value(item)).collect();
                (list.range.start, Value::List(items))
            }
            ast::Value::Object(object) => (object.range.start, self.json_table(object)),
        };
        SettingNode { value, origin: self.origin_of(start) }
    }

    fn json_table(&mut self, object: &ast::Object<'_>) -> Value {
        let mut table = SettingsTable::new();
        for property in &object.properties {
            let name = property.name.as_str();
            let key = self.origin_of(property.range.start);
            let node = self.json_value(&property.value);
            if table.contains_key(name) {
                let message = format!("duplicate key `{}`", shown(name));
                self.problems.push(ConfigProblem::at(&key, "", message));
            }
            table.insert(name.to_owned(), SettingEntry { key, node });
        }
        Value::Table(table)
    }

    fn number(&mut self, read: Option<Value>, start: usize) -> Value {
        read.unwrap_or_else(|| {
            self.complain(start, "this number is out of range");
            Value::Other("a number out of range")
        })
    }

    fn complain(&mut self, offset: usize, message: &str) {
        // Parsers write sentences; our messages go on after a colon.
        let mut letters = message.trim().chars();
        let first = letters.next().into_iter().flat_map(char::to_lowercase);
        let message = first.chain(letters).collect::<String>().replace('\n', "; ");
        self.problems.push(ConfigProblem::at(&self.origin_of(offset), "", message));
    }

    fn origin_of(&self, offset: usize) -> ValueOrigin {
        ValueOrigin::File(Arc::clone(self.file), offset)
    }
}
