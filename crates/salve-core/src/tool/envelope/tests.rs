use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn id(text: &str) -> MessageId {
    MessageId::from_json(text)
}

fn request(text: &str, method: &str) -> Envelope {
    Envelope::Request { id: id(text), method: method.to_owned() }
}

fn result(text: &str) -> Envelope {
    Envelope::Response { id: id(text), answer: RequestAnswer::Result }
}

/// Reads a line whole and in every possible two pieces, and byte by byte.
#[track_caller]
fn check(line: &str, want: &Envelope) {
    let bytes = line.as_bytes();
    assert_eq!(Envelope::of(bytes), *want, "{line}");
    for at in 0..=bytes.len() {
        let mut scanner = EnvelopeScanner::default();
        scanner.feed(&bytes[..at]);
        scanner.feed(&bytes[at..]);
        assert_eq!(scanner.finish(), *want, "{line} cut at {at}");
    }
    let mut scanner = EnvelopeScanner::default();
    bytes.iter().for_each(|byte| scanner.feed(std::slice::from_ref(byte)));
    assert_eq!(scanner.finish(), *want, "{line}");
}

#[test]
fn members_are_found_in_any_order_and_only_in_the_outermost_object() {
    for (line, want) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#,
            request("1", "tools/call"),
        ),
        (
            r#"{"params":{"id":9,"method":"no"},"method":"ping","id":"a\"b"}"#,
            request(r#""a\"b""#, "ping"),
        ),
        (r#"{"result":{"content":[{"text":"}]\"id\":3"}]},"jsonrpc":"2.0","id":7}"#, result("7")),
        (r#"{"id":7,"result":null}"#, result("7")),
        (r#"{"id" : -1.5e3 , "result" : [ ] } "#, result("-1.5e3")),
        (r#"{"id":1,"result":{},"error":null}"#, result("1")),
        (
            r#"{"method":"notifications/initialized"}"#,
            Envelope::Notification { method: "notifications/initialized".into() },
        ),
        (r#"{"id":null,"method":"x\/y"}"#, Envelope::Notification { method: "x/y".into() }),
        (
            r#"{"id":2,"error":{"code":-32601}}"#,
            Envelope::Response { id: id("2"), answer: RequestAnswer::Error },
        ),
    ] {
        check(line, &want);
    }
}

#[test]
fn what_is_no_message_is_told_apart() {
    for (line, want) in [
        ("", Envelope::Blank),
        (" \r\n", Envelope::Blank),
        ("Server listening on stdio", Envelope::Text),
        ("42", Envelope::Text),
        (r#"{"level":"info","msg":"started"}"#, Envelope::Foreign),
        (r#"{"id":3,"name":"row"}"#, Envelope::Foreign),
        ("{}", Envelope::Foreign),
        (r#"[{"id":1,"method":"ping"}]"#, Envelope::Batch),
        (r#" [ {"id":1,"method":"ping"},7"#, Envelope::Batch),
        ("[]", Envelope::Batch),
        ("[INFO] listening", Envelope::Text),
        ("[ 2026-01-01] ready", Envelope::Text),
        ("[", Envelope::Text),
        (r#"{"id":4,"result":{"content":["#, Envelope::Malformed { id: Some(id("4")) }),
        (r#"{"result":{"a":"b"#, Envelope::Malformed { id: None }),
        (r#"{"id":5,"result":{}} trailing"#, Envelope::Malformed { id: Some(id("5")) }),
        (r#"{"id":,"result":{}}"#, Envelope::Malformed { id: None }),
        (r#"{oops}"#, Envelope::Malformed { id: None }),
    ] {
        check(line, &want);
    }
}

#[test]
fn an_endless_id_or_method_needs_no_memory() {
    let mut scanner = EnvelopeScanner::default();
    scanner.feed(br#"{"id":""#);
    for _ in 0..10_000 {
        scanner.feed(&[b'x'; 1000]);
    }
    assert!(scanner.read.capacity() <= 4 * LONGEST);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC*|[\"\\\\{}\\[\\]:,]*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,8}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_a_result_holds_its_id_is_found(value in any_json(), number in any::<i64>(), cut in any::<prop::sample::Index>()) {
        let line = json!({"jsonrpc": "2.0", "result": value, "id": number}).to_string();
        let at = cut.index(line.len());
        let mut scanner = EnvelopeScanner::default();
        scanner.feed(&line.as_bytes()[..at]);
        scanner.feed(&line.as_bytes()[at..]);
        prop_assert_eq!(scanner.finish(), result(&number.to_string()));
    }

    #[test]
    fn anything_at_all_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Envelope::of(&bytes);
    }
}
