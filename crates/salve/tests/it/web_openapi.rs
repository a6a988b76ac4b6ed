//! The API against its own description: whatever fits it or breaks it is answered, never by a 500.

use serde_json::{Map, Value, json};

use crate::support::Project;
use crate::web::{Answer, Page, asking};

/// What stands where an id, a name or a word is wanted.
const ODD_WORDS: [&str; 8] =
    ["", "x", "0000", "-1", "18446744073709551616", "\u{0}\u{202e}", "../../etc", "\u{1f9b9} a b"];

/// How many values of one part are tried in a body.
const MOST_VALUES: usize = 14;

/// The description, and what it says.
struct Description(Value);

impl Description {
    /// Returns the schema that another one refers to, or itself.
    fn resolve<'d>(&'d self, schema: &'d Value) -> &'d Value {
        match schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
            Some(path) => self.0.pointer(path).unwrap_or_else(|| panic!("{path} leads nowhere")),
            None => schema,
        }
    }

    /// Returns values for a schema: those that fit it first, then those that do not.
    fn values(&self, schema: &Value) -> Vec<Value> {
        let mut values = self.fitting(schema);
        let long = "a".repeat(3_000);
        values.extend([json!(null), json!([]), json!({}), json!(7), json!(-1.5), json!(long)]);
        values.extend(ODD_WORDS.map(Value::from));
        values.dedup();
        values.truncate(MOST_VALUES);
        values
    }

    fn fitting(&self, schema: &Value) -> Vec<Value> {
        let schema = self.resolve(schema);
        for many in ["anyOf", "oneOf", "allOf"] {
            if let Some(parts) = schema[many].as_array() {
                return parts.iter().flat_map(|part| self.fitting(part)).collect();
            }
        }
        if let Some(words) = schema["enum"].as_array() {
            return words.clone();
        }
        if !schema["const"].is_null() {
            return vec![schema["const"].clone()];
        }
        match kind(schema) {
            "object" => self.objects(schema).into_iter().take(1).collect(),
            "array" => {
                vec![Value::Array(self.fitting(&schema["items"]).into_iter().take(1).collect())]
            }
            "integer" => vec![json!(1), json!(0), json!(u64::MAX), json!(i64::MIN)],
            "number" => vec![json!(0.5), json!(1e308)],
            "boolean" => vec![json!(true), json!(false)],
            _ => vec![json!("x"), json!("0".repeat(64))],
        }
    }

    /// Returns bodies: one that fits, then one for each value of each part, then without each part,
    /// with one too many, and none at all.
    fn objects(&self, schema: &Value) -> Vec<Value> {
        let schema = self.resolve(schema);
        let none = Map::new();
        let parts = schema["properties"].as_object().unwrap_or(&none);
        let fit = |part: &Value| self.fitting(part).into_iter().next().unwrap_or_default();
        let whole: Map<String, Value> =
            parts.iter().map(|(name, part)| (name.clone(), fit(part))).collect();
        let mut bodies = vec![Value::Object(whole.clone())];
        for (name, part) in parts {
            let mut without = whole.clone();
            without.remove(name);
            bodies.push(Value::Object(without));
            for value in self.values(part) {
                let mut other = whole.clone();
                other.insert(name.clone(), value);
                bodies.push(Value::Object(other));
            }
        }
        let mut more = whole;
        more.insert("no such part".to_owned(), json!(1));
        bodies.extend([Value::Object(more), json!(null), json!([]), json!("x"), json!(7)]);
        bodies
    }
}

impl Description {
    /// Returns what of a value is not as a schema says.
    fn misfit(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        let schema = self.resolve(schema);
        for many in ["anyOf", "oneOf"] {
            if let Some(parts) = schema[many].as_array() {
                let misfits: Option<Vec<String>> =
                    parts.iter().map(|part| self.misfit(part, value, at)).collect();
                return misfits.map(|misfits| misfits.join(" and "));
            }
        }
        let is_listed = |list: &Value| list.as_array().is_none_or(|all| all.contains(value));
        let is_same = schema["const"].is_null() || schema["const"] == *value;
        if !is_listed(&schema["enum"]) || !is_same || !is_of_type(&schema["type"], value) {
            return Some(format!("{at} is {value}, not {schema}"));
        }
        match value {
            Value::Array(items) => {
                let part = |item| self.misfit(&schema["items"], item, &format!("{at}[]"));
                items.iter().find_map(part)
            }
            Value::Object(fields) => {
                let required = schema["required"].as_array().into_iter().flatten();
                let mut required = required.filter_map(Value::as_str);
                let missing = required.find(|name| !fields.contains_key(*name));
                missing.map(|name| format!("{at}.{name} is missing")).or_else(|| {
                    fields.iter().find_map(|(name, field)| {
                        let of = schema["properties"].get(name)?;
                        self.misfit(of, field, &format!("{at}.{name}"))
                    })
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
}

/// Tells whether a value is of one of the types that a schema names, if it names any.
fn is_of_type(types: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    };
    match types {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    }
}

/// Returns the type that a schema names, the first that is not null.
fn kind(schema: &Value) -> &str {
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => Vec::from_iter(one.as_str()),
    };
    types.into_iter().find(|kind| *kind != "null").unwrap_or("string")
}

/// Returns a path with `word` for each of its variable parts.
fn filled(path: &str, word: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { encoded(word) } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Fails unless an answer is what the description promises of every answer.
#[track_caller]
fn check(api: &Description, asked: &str, operation: &Value, answer: &Answer) {
    assert!((200..500).contains(&answer.status), "{asked}: {answer:?}");
    let media = match answer.status {
        200..300 => operation["responses"]["200"]["content"].as_object().unwrap().keys().next(),
        _ => None,
    };
    let media = media.map_or("application/problem+json", String::as_str);
    assert!(answer.head.contains(&format!("content-type: {media}")), "{asked}: {answer:?}");
    if media == "application/json" {
        let schema = &operation["responses"]["200"]["content"][media]["schema"];
        assert_eq!(api.misfit(schema, &answer.json(), "answer"), None, "{asked}: {answer:?}");
    } else if media.contains("json") {
        let _well_formed = answer.json();
    }
}

#[test]
fn a_misfit_is_found_wherever_it_is() {
    let api = Description(json!({ "components": { "schemas": { "Row": {
        "type": "object", "required": ["id"],
        "properties": { "id": { "type": "string" }, "more": { "type": ["integer", "null"] } },
    } } } }));
    let rows = json!({ "type": "array", "items": { "$ref": "#/components/schemas/Row" } });
    let misfit = |value| api.misfit(&rows, &value, "answer");
    assert_eq!(misfit(json!([{ "id": "a", "more": null }, { "id": "b", "more": 1 }])), None);
    for wrong in [json!({}), json!([{}]), json!([{ "id": 1 }]), json!([{ "id": "a", "more": "" }])]
    {
        assert!(misfit(wrong.clone()).is_some(), "{wrong}");
    }
}

#[test]
fn what_fits_the_description_and_what_breaks_it_is_answered_and_never_by_a_500() {
    let project = Project::new();
    let care = asking(&project, 7 << 96);
    let page = Page::of(&project);
    let session = page.sign_in();
    let api = Description(page.get("/api/openapi.json", &session).json());
    assert_eq!(api.0["openapi"], "3.1.0");
    let id = care.id.to_string();
    let mut asked = 0;
    for (path, methods) in api.0["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            // A stream has a story of its own, and with its session this one would end.
            if ["/api/events", "/api/session/end"].contains(&path.as_str()) {
                continue;
            }
            for (path, body) in requests(&api, path, operation, &id) {
                let answer = page.ask(&method.to_uppercase(), &path, &session, &body);
                check(&api, &format!("{method} {path} {body}"), operation, &answer);
                assert_ne!(answer.status, 405, "{method} {path} is described and not served");
                asked += 1;
            }
        }
    }
    assert!(asked > 500, "{asked} requests are few");
    assert_eq!(page.get("/healthz", "").status, 200);
}

/// Returns the requests for one operation: paths with their queries, and bodies.
fn requests(api: &Description, path: &str, operation: &Value, id: &str) -> Vec<(String, String)> {
    let good = filled(path, id);
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !schema.is_null() {
        let mut all: Vec<_> =
            api.objects(schema).iter().map(|body| (good.clone(), body.to_string())).collect();
        let fitting = all[0].1.clone();
        let odd = ODD_WORDS.iter().map(|word| (filled(path, word), fitting.clone()));
        all.extend(odd);
        all.extend(["", "{", "\u{0}", "{\"a\":1}}"].map(|body| (good.clone(), body.to_owned())));
        return all;
    }
    let mut all = vec![(good.clone(), String::new())];
    all.extend(ODD_WORDS.map(|word| (filled(path, word), String::new())));
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "query" {
            let name = parameter["name"].as_str().unwrap();
            let long = "9".repeat(300);
            for word in ODD_WORDS.into_iter().chain([long.as_str(), "1"]) {
                all.push((format!("{good}?{name}={}", encoded(word)), String::new()));
            }
        }
    }
    all
}
