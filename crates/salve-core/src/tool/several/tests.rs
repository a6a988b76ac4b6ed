//! Tests of several servers behind one connection.

use super::SwitchedLine::{ToClient, ToServer};
use super::*;

fn switch() -> ServerSwitch {
    ServerSwitch::new(vec!["git".into(), "web".into()])
}

/// Returns the lines as text, each with its way: `0<`, `1<` to servers, `>` to the client.
fn texts(lines: Vec<SwitchedLine>) -> Vec<String> {
    let text = |line: Vec<u8>| String::from_utf8(line).unwrap().trim_end().to_owned();
    lines
        .into_iter()
        .map(|line| match line {
            ToServer(at, line) => format!("{at}< {}", text(line)),
            ToClient(line) => format!("> {}", text(line)),
        })
        .collect()
}

fn client(switch: &mut ServerSwitch, line: &str) -> Vec<String> {
    texts(switch.client_sends(line.as_bytes()))
}

fn server(switch: &mut ServerSwitch, at: usize, line: &str) -> Vec<String> {
    texts(switch.server_sends(at, line.as_bytes()))
}

/// Returns the only message to the client.
fn told(lines: &[String]) -> Value {
    assert_eq!(lines.len(), 1, "{lines:?}");
    serde_json::from_str(lines[0].strip_prefix("> ").unwrap()).unwrap()
}

/// A switch whose client has listed: `git` has `log` and `diff`, `web` has `log` and `get`.
fn listed() -> ServerSwitch {
    let mut switch = switch();
    let asked = client(&mut switch, r#"{"id":1,"method":"tools/list"}"#);
    assert_eq!(
        asked,
        [r#"0< {"id":1,"method":"tools/list"}"#, r#"1< {"id":1,"method":"tools/list"}"#]
    );
    let of_git = r#"{"id":1,"result":{"tools":[{"name":"log","x-future":1}],"nextCursor":"c"}}"#;
    let more = server(&mut switch, 0, of_git);
    assert_eq!(more, [r#"0< {"id":1,"method":"tools/list","params":{"cursor":"c"}}"#]);
    assert!(server(&mut switch, 0, r#"{"id":1,"result":{"tools":[{"name":"diff"}]}}"#).is_empty());
    let of_web = r#"{"id":1,"result":{"tools":[{"name":"log"},{"name":"get"}]}}"#;
    let all = told(&server(&mut switch, 1, of_web));
    let want = json!([{"name": "git__log", "x-future": 1}, {"name": "diff"}, {"name": "web__log"}, {"name": "get"}]);
    assert_eq!(all["result"]["tools"], want);
    assert!(all["result"].get("nextCursor").is_none());
    switch
}

#[test]
fn a_name_gets_its_servers_name_only_where_two_have_it_and_calls_reach_their_own() {
    let mut switch = listed();
    let call = |id: u32, name: &str| {
        format!(
            r#"{{"jsonrpc":"2.0", "id":{id},"method":"tools/call","params":{{"name":"{name}","n":1.50}}}}"#
        )
    };
    for (name, want) in [("diff", "0< "), ("get", "1< ")] {
        assert_eq!(
            client(&mut switch, &call(7, name)),
            [format!("{want}{}", call(7, name))],
            "as it is"
        );
        let answer = r#"{"id":7, "result":{"big":12345678901234567890123}}"#;
        let at = usize::from(name == "get");
        assert_eq!(server(&mut switch, at, answer), [format!("> {answer}")]);
    }
    let renamed = client(&mut switch, &call(8, "web__log"));
    assert_eq!(
        renamed,
        [r#"1< {"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"log","n":1.50}}"#]
    );
    let unknown = told(&client(&mut switch, &call(9, "log")));
    assert_eq!(unknown["error"]["code"], INVALID_PARAMS, "nobody guesses which of two is meant");
}

#[test]
fn a_call_before_any_list_waits_until_it_is_known_whose_the_tools_are() {
    let mut switch = switch();
    let call = r#"{"id":7,"method":"tools/call","params":{"name":"get"}}"#;
    let asked = client(&mut switch, call);
    assert_eq!(asked.len(), 2, "{asked:?}");
    let own = r#"{"jsonrpc":"2.0","id":"salve-1","result":{"tools":[]}}"#;
    assert!(server(&mut switch, 0, own).is_empty());
    let of_web = r#"{"id":"salve-1","result":{"tools":[{"name":"get"}]}}"#;
    assert_eq!(server(&mut switch, 1, of_web), [format!("1< {call}")]);
    // A list that changed is read again before the next call.
    let changed = r#"{"method":"notifications/tools/list_changed"}"#;
    assert_eq!(server(&mut switch, 1, changed), [format!("> {changed}")]);
    assert_eq!(client(&mut switch, call).len(), 2);
}

#[test]
fn greetings_are_put_together_and_a_server_that_is_late_is_not_waited_for() {
    let mut switch = switch();
    client(&mut switch, r#"{"id":"a","method":"initialize","params":{}}"#);
    let git = r#"{"id":"a","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"instructions":"Use log.","x-future":[1]}}"#;
    assert!(server(&mut switch, 0, git).is_empty());
    let web = r#"{"id":"a","result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{},"prompts":{}}}}"#;
    let greeted = told(&server(&mut switch, 1, web))["result"].clone();
    assert_eq!(greeted["protocolVersion"], "2024-11-05", "which all understand");
    assert_eq!(greeted["capabilities"], json!({"tools": {"listChanged": true}, "prompts": {}}));
    assert_eq!(
        (&greeted["instructions"], &greeted["x-future"]),
        (&json!("git: Use log."), &json!([1]))
    );
    client(&mut switch, r#"{"id":"b","method":"server/discover"}"#);
    assert!(switch.greeting_is_overdue().is_empty(), "nobody has answered yet");
    server(&mut switch, 1, r#"{"id":"b","result":{"supportedVersions":["2026-07-28"]}}"#);
    let discovered = told(&texts(switch.greeting_is_overdue()));
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
}

#[test]
fn questions_of_servers_do_not_mix_up() {
    let mut switch = switch();
    let asked = told(&server(&mut switch, 0, r#"{"id":1,"method":"roots/list"}"#));
    let other = told(&server(&mut switch, 1, r#"{"id":1,"method":"sampling/createMessage"}"#));
    assert_ne!(asked["id"], other["id"]);
    let answer = format!(r#"{{"id":{},"result":{{"n":1.50}}}}"#, other["id"]);
    assert_eq!(client(&mut switch, &answer), [r#"1< {"id":1,"result":{"n":1.50}}"#]);
    let withdrawn = r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#;
    let withdrawn = told(&server(&mut switch, 0, withdrawn));
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    // A cancellation of the client's reaches the one that works on it.
    let mut switch = listed();
    client(&mut switch, r#"{"id":7,"method":"tools/call","params":{"name":"get"}}"#);
    let cancelled = r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert_eq!(client(&mut switch, cancelled), [format!("1< {cancelled}")]);
    let ready = r#"{"method":"notifications/initialized"}"#;
    assert_eq!(client(&mut switch, ready), [format!("0< {ready}"), format!("1< {ready}")]);
}

#[test]
fn resources_are_read_from_their_server_and_what_nobody_listed_from_whoever_has_it() {
    let mut switch = switch();
    client(&mut switch, r#"{"id":1,"method":"resources/list"}"#);
    server(&mut switch, 0, r#"{"id":1,"error":{"code":-32601,"message":"no"}}"#);
    let all = told(&server(&mut switch, 1, r#"{"id":1,"result":{"resources":[{"uri":"a:/1"}]}}"#));
    assert_eq!(all["result"]["resources"], json!([{"uri": "a:/1"}]));
    let read =
        |uri: &str| format!(r#"{{"id":2,"method":"resources/read","params":{{"uri":"{uri}"}}}}"#);
    assert_eq!(client(&mut switch, &read("a:/1")), [format!("1< {}", read("a:/1"))]);
    assert_eq!(client(&mut switch, &read("b:/2")).len(), 2);
    server(&mut switch, 1, r#"{"id":2,"error":{"code":-32002,"message":"none"}}"#);
    let found = told(&server(&mut switch, 0, r#"{"id":2,"result":{"contents":[]}}"#));
    assert_eq!(found["result"], json!({"contents": []}));
}

#[test]
fn a_server_that_ends_for_good_is_answered_for_and_the_other_goes_on() {
    let mut switch = listed();
    client(&mut switch, r#"{"id":7,"method":"tools/call","params":{"name":"get"}}"#);
    client(&mut switch, r#"{"id":8,"method":"ping"}"#);
    server(&mut switch, 0, r#"{"id":8,"result":{}}"#);
    let left = texts(switch.server_ended(1));
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(
        left[0].contains("may have taken effect") && left[1].contains(r#""result":{}"#),
        "{left:?}"
    );
    let gone =
        told(&client(&mut switch, r#"{"id":9,"method":"tools/call","params":{"name":"get"}}"#));
    assert_eq!(gone["error"]["code"], CONNECTION_CLOSED);
    assert_eq!(
        client(&mut switch, r#"{"id":9,"method":"tools/call","params":{"name":"diff"}}"#).len(),
        1
    );
    assert!(!switch.is_deserted());
    switch.server_ended(0);
    assert!(switch.is_deserted());
    assert_eq!(told(&client(&mut switch, r#"{"id":10,"method":"ping"}"#))["id"], 10);
}

#[test]
fn a_server_answers_for_nobody_else_and_takes_nobody_elses_name() {
    let mut switch = listed();
    client(&mut switch, r#"{"id":7,"method":"tools/call","params":{"name":"diff"}}"#);
    // Neither what the other one was asked, nor what nobody has asked yet.
    for id in ["7", "8", "\"salve-1\""] {
        let forged = format!(r#"{{"id":{id},"result":{{"content":[]}}}}"#);
        assert!(server(&mut switch, 1, &forged).is_empty(), "{forged}");
    }
    let answer = r#"{"id":7,"result":{"content":[1]}}"#;
    assert_eq!(server(&mut switch, 0, answer), [format!("> {answer}")]);
    assert!(server(&mut switch, 0, answer).is_empty(), "one answer to one question");
    client(&mut switch, r#"{"id":7,"method":"tools/call","params":{"name":"diff"}}"#);
    client(&mut switch, r#"{"id":8,"method":"tools/call","params":{"name":"get"}}"#);
    // Nor in a line that a client may read as several, or as another one.
    for forged in [
        r#"[{"id":7,"result":{}}]"#,
        r#"[[{"id":7,"result":{}}]]"#,
        r#"{"id":8,"result":{},"id":7}"#,
        r#"{"id":8,"result":{},"ID":7}"#,
        r#"{"id":8,"result":{}}{"id":7,"result":{}}"#,
    ] {
        assert!(server(&mut switch, 1, forged).is_empty(), "{forged}");
    }
    let both = r#"[{"id":7,"result":{}},{"id":8,"result":{}}]"#;
    assert_eq!(server(&mut switch, 1, both), [r#"> {"id":8,"result":{}}"#]);
    server(&mut switch, 0, answer);
    client(&mut switch, r#"{"id":9,"method":"tools/list"}"#);
    let git = r#"{"id":9,"result":{"tools":[{"name":"log"},{"name":"git__diff"}]}}"#;
    server(&mut switch, 0, git);
    let web = r#"{"id":9,"result":{"tools":[{"name":"git__log"},{"name":"log"}]}}"#;
    let all = told(&server(&mut switch, 1, web));
    let names: Vec<&str> = all["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["git__log", "git__diff", "web__git__log", "web__log"]);
    let call = r#"{"id":10,"method":"tools/call","params":{"name":"git__log"}}"#;
    let called = client(&mut switch, call);
    assert!(called[0].starts_with("0< "), "{called:?}");
}

#[test]
fn a_server_tells_of_its_own_requests_only() {
    let mut switch = listed();
    let call =
        r#"{"id":7,"method":"tools/call","params":{"name":"diff","_meta":{"progressToken":"t"}}}"#;
    client(&mut switch, call);
    let progress =
        r#"{"method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    assert!(server(&mut switch, 1, progress).is_empty());
    assert_eq!(server(&mut switch, 0, progress), [format!("> {progress}")]);
    // The client knows what a server asks by another number.
    let asked = told(&server(&mut switch, 0, r#"{"id":1,"method":"roots/list"}"#));
    let cancelled = |id: &str| {
        format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
    };
    let known = asked["id"].to_string();
    for id in ["1", "7", &known] {
        assert!(server(&mut switch, 1, &cancelled(id)).is_empty(), "{id}");
    }
    assert_eq!(server(&mut switch, 0, &cancelled("1")), [format!("> {}", cancelled(&known))]);
    server(&mut switch, 0, r#"{"id":7,"result":{}}"#);
    assert!(server(&mut switch, 0, progress).is_empty(), "it is answered");
}

/// **Invariant:** A batch is answered in one line, whichever servers its requests are for.
#[test]
fn a_batch_is_answered_in_one_line_by_all_whose_requests_are_in_it() {
    let mut switch = listed();
    let call = |id: u32, name: &str| {
        format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"{name}"}}}}"#)
    };
    let note = r#"{"method":"notifications/roots/list_changed"}"#;
    let (diff, get) = (call(7, "diff"), call(8, "get"));
    let sent = client(&mut switch, &format!("[{diff},{note},{get},{}]\n", call(9, "none")));
    let want =
        [format!("0< {diff}"), format!("0< {note}"), format!("1< {note}"), format!("1< {get}")];
    assert_eq!(sent, want);
    assert!(server(&mut switch, 1, r#"{"id":8,"result":{}}"#).is_empty());
    let ended = texts(switch.server_ended(0));
    let answers: Vec<Value> = serde_json::from_value(told(&ended)).unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [9, 8, 7]);
    assert!(answers[2].to_string().contains("may have taken effect"), "{answers:?}");
}
