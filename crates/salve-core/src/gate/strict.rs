//! JSON read without mercy: one reading, or none.
//!
//! Ordinary readers keep the last of two equal keys, so two programs may see two commands in one
//! file. Here a repeated key, trailing text, or nesting beyond [`MAX_DEPTH`] is an error.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 32;

/// A text that is not exactly one JSON value with distinct keys.
#[derive(Debug, thiserror::Error)]
#[error("not valid JSON: {0}")]
pub struct NotStrict(#[from] serde_json::Error);

/// Reads `text` as exactly one JSON value.
///
/// # Errors
///
/// Returns [`NotStrict`] for bad syntax, a repeated key at any level, nesting that is too deep, a
/// number out of range, or anything after the value.
pub fn parse(text: &str) -> Result<Value, NotStrict> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Returns the top-level `id` of a line that may be broken further on.
///
/// Only a string or a number counts, and only when it comes before whatever is wrong.
pub fn salvage_id(text: &str) -> Option<Value> {
    let found = Cell::new(None);
    // The outcome does not matter: what was seen before an error has been kept.
    let _ = FindId { found: &found }.deserialize(&mut serde_json::Deserializer::from_str(text));
    found.take()
}

struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: Error>(&self) -> Result<Strict, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format_args!("nested more than {MAX_DEPTH} deep")));
        }
        Ok(Strict { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.deeper()?)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom("a key appears twice in one object"));
            }
            let value = entries.next_value_seed(self.deeper()?)?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

struct FindId<'a> {
    found: &'a Cell<Option<Value>>,
}

impl<'de> DeserializeSeed<'de> for FindId<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FindId<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict { depth: 1 })?;
            if key == "id" && (value.is_string() || value.is_number()) {
                self.found.set(Some(value));
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plain_value_reads_as_everyone_reads_it() {
        let text = r#" {"a": [1, -2, 2.5, "x", null, true], "b": {"c": ""}} "#;
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn two_readings_are_no_reading() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"x":{"y":[{"a":1,"b":2,"a":3}]}}"#,
            "",
            " ",
            "{",
            r#"{"a":"#,
            r#"{"a":1}x"#,
            r#"{"a":1}{"a":1}"#,
            r#"{"a":1,}"#,
            "{'a':1}",
            "{a:1}",
            r#"{"a":01}"#,
            r#"{"a":1e999}"#,
            r#"{"a":NaN}"#,
            "{\"a\":\"\u{0}\"}",
            "{\"a\":\"x\ny\"}",
            r#"{"a":"\ud800"}"#,
            r#"{"a":1} // note"#,
            "\u{feff}{}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded_at_the_limit_and_far_beyond() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert!(parse(&nested(MAX_DEPTH + 2)).is_err());
        assert!(parse(&nested(100_000)).is_err());
        assert!(parse(&"{\"a\":".repeat(100_000)).is_err());
    }

    #[test]
    fn the_id_of_a_broken_line_is_found_when_it_comes_first() {
        for (text, want) in [
            (r#"{"id":"C1","proposal":{"#, Some(json!("C1"))),
            (r#"{"id":7,"a":1,"a":2}"#, Some(json!(7))),
            (r#"{"repo":"x","id":"C2"} junk"#, Some(json!("C2"))),
            (r#"{"id":["C3"]}"#, None),
            (r#"{"proposal":{,"id":"C4"}"#, None),
            ("nothing", None),
            ("[]", None),
        ] {
            assert_eq!(salvage_id(text), want, "{text}");
        }
    }
}
