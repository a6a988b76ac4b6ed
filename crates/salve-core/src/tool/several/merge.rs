//! The answers of several servers to one request, put together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::NameRoute;
use super::message::RoutedMessage;

/// The most pages of a list that are asked of one server.
const MOST_PAGES: usize = 100;

/// A request that several servers answer.
#[derive(Clone, Debug)]
pub(super) struct GatheredAnswers {
    method: String,
    request: RoutedMessage,
    waits: BTreeSet<usize>,
    /// What each has answered, page by page.
    results: Vec<Vec<Value>>,
    /// The first error that any answered.
    error: Option<Value>,
}

/// What became of the answers.
#[derive(Debug, Default)]
pub(super) struct MergedAnswer {
    pub(super) is_error: bool,
    /// The result or the error, as JSON.
    pub(super) body: String,
    /// Whose the names of a list are.
    pub(super) routes: BTreeMap<String, NameRoute>,
    /// Whose the resources of a list are.
    pub(super) resources: BTreeMap<String, usize>,
}

impl GatheredAnswers {
    pub(super) fn new(
        method: &str,
        request: RoutedMessage,
        waits: BTreeSet<usize>,
        servers: usize,
    ) -> Self {
        let (results, error) = (vec![Vec::new(); servers], None);
        Self { method: method.to_owned(), request, waits, results, error }
    }

    pub(super) fn method(&self) -> &str {
        &self.method
    }

    /// Takes in what a server answered; returns the request for its next page, if there is one.
    pub(super) fn take(&mut self, at: usize, message: &RoutedMessage) -> Option<Vec<u8>> {
        if !self.waits.contains(&at) {
            return None;
        }
        let value = |name: &str| serde_json::from_str::<Value>(message.get(name)?.get()).ok();
        match value("result") {
            Some(result) => {
                let cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
                self.results[at].push(result);
                if let Some(cursor) = cursor.filter(|_| self.results[at].len() < MOST_PAGES) {
                    let mut next = self.request.clone();
                    next.set_param("/cursor", &cursor);
                    return Some(next.line());
                }
            }
            None => self.error = self.error.take().or_else(|| value("error")),
        }
        self.waits.remove(&at);
        None
    }

    /// Takes in that a server will not answer.
    pub(super) fn ended(&mut self, at: usize, why: &str) {
        if self.waits.remove(&at) && self.error.is_none() {
            self.error = Some(json!({ "code": super::CONNECTION_CLOSED, "message": why }));
        }
    }

    /// Waits for nobody any more.
    pub(super) fn give_up(&mut self) {
        self.waits.clear();
    }

    pub(super) fn is_complete(&self) -> bool {
        self.waits.is_empty()
    }

    pub(super) fn has_any(&self) -> bool {
        self.results.iter().any(|pages| !pages.is_empty())
    }

    /// Puts the answers together.
    pub(super) fn merged(&self, names: &[String]) -> MergedAnswer {
        if !self.has_any() {
            let none = json!({ "code": super::CONNECTION_CLOSED, "message": "nobody answered" });
            let body = self.error.clone().unwrap_or(none).to_string();
            return MergedAnswer { is_error: true, body, ..MergedAnswer::default() };
        }
        match self.method.as_str() {
            "initialize" | "server/discover" => self.greeting(names),
            "tools/list" => self.list("tools", names),
            "prompts/list" => self.list("prompts", names),
            "resources/list" => self.list("resources", names),
            "resources/templates/list" => self.list("resourceTemplates", names),
            // Whoever could answer, did.
            _ => {
                let first = self.results.iter().flatten().next().cloned().unwrap_or_default();
                MergedAnswer { body: first.to_string(), ..MergedAnswer::default() }
            }
        }
    }

    fn greeting(&self, names: &[String]) -> MergedAnswer {
        let mut whole: Map<String, Value> = Map::new();
        let mut instructions = Vec::new();
        for (at, result) in self.firsts() {
            let Value::Object(result) = result else { continue };
            for (name, value) in result {
                if name == "instructions" {
                    let text = value.as_str().unwrap_or_default();
                    instructions.push(format!("{}: {text}", names[at]));
                    continue;
                }
                let Some(known) = whole.get_mut(name) else {
                    whole.insert(name.clone(), value.clone());
                    continue;
                };
                // All understand the oldest; versions are dates.
                if name != "protocolVersion" {
                    join(known, value);
                } else if value.as_str() < known.as_str() {
                    *known = value.clone();
                }
            }
        }
        let version = env!("CARGO_PKG_VERSION");
        whole.insert("serverInfo".to_owned(), json!({ "name": "salve", "version": version }));
        if !instructions.is_empty() {
            whole.insert("instructions".to_owned(), instructions.join("\n\n").into());
        }
        MergedAnswer { body: Value::Object(whole).to_string(), ..MergedAnswer::default() }
    }

    fn firsts(&self) -> impl Iterator<Item = (usize, &Value)> {
        let firsts = self.results.iter().enumerate();
        firsts.filter_map(|(at, pages)| Some((at, pages.first()?)))
    }

    /// Puts lists together; names that two servers have, and those
    /// that would pass for another's, get their server's name in front.
    fn list(&self, member: &str, names: &[String]) -> MergedAnswer {
        let mut merged = MergedAnswer::default();
        let has_names = matches!(member, "tools" | "prompts");
        let items = || {
            self.results.iter().enumerate().flat_map(move |(at, pages)| {
                let lists = pages.iter().filter_map(move |page| page.get(member)?.as_array());
                lists.flatten().map(move |item| (at, item))
            })
        };
        let name_of = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
        let mut owners: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (at, item) in items() {
            owners.entry(name_of(item).unwrap_or_default()).or_default().insert(at);
        }
        let mut all = Vec::new();
        for (at, item) in items() {
            let mut item = item.clone();
            if let Some(uri) = item.get("uri").and_then(Value::as_str) {
                merged.resources.entry(uri.to_owned()).or_insert(at);
            }
            if let Some(name) = name_of(&item).filter(|_| has_names) {
                let is_shared = owners.get(&name).is_some_and(|owners| owners.len() > 1);
                let clashes = is_shared || is_called_after_another(&name, at, names);
                let mut shown =
                    if clashes { format!("{}__{name}", names[at]) } else { name.clone() };
                let is_own =
                    |shown: &str| owners.get(shown).is_some_and(|owners| owners.contains(&at));
                while merged.routes.contains_key(&shown) || (clashes && is_own(&shown)) {
                    shown.push('_');
                }
                item["name"] = shown.clone().into();
                merged.routes.insert(shown, NameRoute { at, name });
            }
            all.push(item);
        }
        let mut whole = self.firsts().next().map(|(_, first)| first.clone()).unwrap_or_default();
        if let Some(whole) = whole.as_object_mut() {
            whole.remove("nextCursor");
            whole.insert(member.to_owned(), all.into());
        }
        merged.body = whole.to_string();
        merged
    }
}

/// Tells whether a name would pass for one of another server, with that one's name in front.
fn is_called_after_another(name: &str, at: usize, names: &[String]) -> bool {
    let mut others = names.iter().enumerate().filter(|(other, _)| *other != at);
    others.any(|(_, other)| {
        name.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with("__"))
    })
}

/// Adds what an object has that another lacks, at any depth.
fn join(known: &mut Value, more: &Value) {
    if let (Value::Object(known), Value::Object(more)) = (known, more) {
        for (name, value) in more {
            match known.get_mut(name) {
                Some(known) => join(known, value),
                None => drop(known.insert(name.clone(), value.clone())),
            }
        }
    }
}
