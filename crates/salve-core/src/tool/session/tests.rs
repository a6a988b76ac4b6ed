use super::*;

/// Sends a line of the client's, and delivers it.
fn client(session: &mut ProxySession, line: &str) -> FromClient {
    let envelope = Envelope::of(line.as_bytes());
    let fate = session.client_sends(&envelope, Some(line.as_bytes()), 5);
    if let Envelope::Request { id, .. } = &envelope {
        session.delivered(id);
    }
    fate
}

fn server(session: &mut ProxySession, line: &str) -> FromServer {
    session.server_sends(&Envelope::of(line.as_bytes()), Some(line.as_bytes()))
}

fn call(id: u32, tool: &str) -> String {
    format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#)
}

const TOOLS: &str = r#"{"id":2,"result":{"tools":[
    {"name":"look","annotations":{"readOnlyHint":true}},
    {"name":"set","annotations":{"idempotentHint":true,"readOnlyHint":false}},
    {"name":"pay","annotations":{"title":"Pay"}},{"name":"plain"}]}}"#;

/// Returns a session in which the client has greeted and listed the tools.
fn greeted() -> ProxySession {
    let mut session = ProxySession::default();
    client(&mut session, r#"{"id":1,"method":"initialize","params":{}}"#);
    server(&mut session, r#"{"id":1,"result":{"capabilities":{"tools":{},"logging":{}}}}"#);
    client(&mut session, r#"{"method":"notifications/initialized"}"#);
    client(&mut session, r#"{"id":2,"method":"tools/list"}"#);
    server(&mut session, TOOLS);
    assert!(!session.is_waiting());
    session
}

fn texts(lines: &[MessageLine]) -> Vec<&str> {
    lines.iter().map(|line| std::str::from_utf8(line).unwrap()).collect()
}

fn undelivered(session: &ProxySession) -> Vec<MessageLine> {
    session.undelivered().into_iter().map(|(_, line)| line).collect()
}

/// **Invariant:** A call that may have acted is never sent twice.
#[test]
fn what_may_have_acted_is_refused_and_the_rest_is_repeated_in_order() {
    let mut session = greeted();
    let calls =
        [call(10, "pay"), call(11, "look"), call(12, "set"), call(13, "plain"), call(14, "?")];
    for line in &calls {
        client(&mut session, line);
    }
    client(&mut session, r#"{"id":15,"method":"resources/read"}"#);
    client(&mut session, r#"{"id":16,"method":"future/act"}"#);
    // One that the server never had whole.
    let never = call(17, "pay");
    session.client_sends(&Envelope::of(never.as_bytes()), Some(never.as_bytes()), 5);
    let left = session.server_ended();
    let want = [&*calls[1], &*calls[2], r#"{"id":15,"method":"resources/read"}"#, &*never];
    assert_eq!(texts(&undelivered(&session)), want);
    let refused: Vec<_> = left.refuse.iter().map(|one| (one.id.as_json(), one.effect)).collect();
    let acted = PossibleEffect::MayHaveActed;
    assert_eq!(refused, [("10", acted), ("13", acted), ("14", acted), ("16", acted)]);
}

#[test]
fn what_kills_the_server_twice_is_not_sent_a_third_time() {
    let mut session = greeted();
    client(&mut session, &call(10, "look"));
    session.server_ended();
    assert_eq!(undelivered(&session).len(), 1);
    // It died before it was sent again: that counts for nothing.
    session.server_ended();
    assert_eq!(undelivered(&session).len(), 1);
    session.delivered(&MessageId::from_json("10"));
    let left = session.server_ended();
    assert!(undelivered(&session).is_empty());
    assert_eq!(left.refuse[0].effect, PossibleEffect::None);
    assert!(!session.is_waiting());
}

#[test]
fn a_new_server_is_greeted_as_the_first_was_and_the_client_does_not_notice() {
    let mut session = greeted();
    client(&mut session, r#"{"id":3,"method":"logging/setLevel","params":{"level":"info"}}"#);
    client(&mut session, r#"{"id":4,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    client(&mut session, r#"{"id":5,"method":"resources/subscribe","params":{"uri":"a"}}"#);
    client(&mut session, r#"{"id":6,"method":"resources/subscribe","params":{"uri":"b"}}"#);
    client(&mut session, r#"{"id":7,"method":"resources/unsubscribe","params":{"uri":"a"}}"#);
    for id in 3..=7 {
        let answer = server(&mut session, &format!(r#"{{"id":{id},"result":{{}}}}"#));
        assert!(matches!(answer, FromServer::PassAnswer(_)));
    }
    session.server_ended();
    assert!(texts(&[session.greet().unwrap()])[0].contains("initialize"));
    assert_eq!(server(&mut session, r#"{"id":1,"result":{}}"#), FromServer::Greeted);
    let told = session.settle_in();
    let told = texts(&told);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].contains("initialized") && told[1].contains("debug") && told[2].contains("\"b\"")
    );
    for id in [4, 6] {
        let answer = server(&mut session, &format!(r#"{{"id":{id},"result":{{}}}}"#));
        assert_eq!(answer, FromServer::Drop);
    }
    assert_eq!(session.lists(), ["tools"]);
}

#[test]
fn a_greeting_without_an_answer_is_repeated_and_answered_to_the_client() {
    let mut session = ProxySession::default();
    client(&mut session, r#"{"id":"a","method":"initialize","params":{}}"#);
    session.server_ended();
    assert_eq!(undelivered(&session).len(), 1);
    assert_eq!(session.greet(), None);
    let answer = server(&mut session, r#"{"id":"a","result":{"capabilities":{}}}"#);
    assert!(matches!(answer, FromServer::PassAnswer(_)));
}

#[test]
fn answers_to_a_server_that_is_gone_do_not_reach_the_next() {
    let mut session = greeted();
    assert_eq!(server(&mut session, r#"{"id":0,"method":"roots/list"}"#), FromServer::Pass);
    let left = session.server_ended();
    assert_eq!(left.withdrawn, [MessageId::from_json("0")]);
    // The next one counts from zero again.
    server(&mut session, r#"{"id":0,"method":"roots/list"}"#);
    assert_eq!(client(&mut session, r#"{"id":0,"result":{"old":1}}"#), FromClient::Drop);
    assert_eq!(client(&mut session, r#"{"id":0,"result":{"new":1}}"#), FromClient::Deliver);
}

#[test]
fn a_cancelled_call_is_forgotten_and_one_that_was_taken_over_is_answered_once() {
    let mut session = greeted();
    client(&mut session, &call(10, "look"));
    client(&mut session, r#"{"method":"notifications/cancelled","params":{"requestId":10}}"#);
    assert_eq!(session.server_ended(), LeftRequests::default());
    client(&mut session, &call(11, "pay"));
    assert_eq!(session.only_waiting(), Some(&MessageId::from_json("11")));
    let refused = session.take_over(&MessageId::from_json("11")).unwrap();
    assert_eq!(refused.effect, PossibleEffect::MayHaveActed);
    assert_eq!(server(&mut session, r#"{"id":11,"result":{}}"#), FromServer::Drop);
    assert_eq!(server(&mut session, r#"{"id":11,"result":{}}"#), FromServer::Pass, "as without us");
}

#[test]
fn what_waits_too_long_for_a_server_is_refused_as_never_sent() {
    let mut session = greeted();
    let line = call(10, "pay");
    session.client_sends(&Envelope::of(line.as_bytes()), Some(line.as_bytes()), 5);
    client(&mut session, &call(11, "pay"));
    assert!(session.refuse_undelivered(5).is_empty());
    let refused = session.refuse_undelivered(6);
    assert_eq!(refused.len(), 1);
    assert_eq!((refused[0].id.as_json(), refused[0].effect), ("10", PossibleEffect::None));
    assert!(session.is_waiting(), "the one that the server has waits on");
}

#[test]
fn a_healed_call_is_retried_under_its_id_and_one_that_was_cancelled_is_not_wanted() {
    let mut session = greeted();
    client(&mut session, &call(10, "pay"));
    let FromServer::PassAnswer(request) = server(&mut session, r#"{"id":10,"result":{}}"#) else {
        panic!()
    };
    session.begin_healing(&request.id);
    session.call_for_self(MessageId::from_json("\"fix\""));
    let own = server(&mut session, r#"{"id":"fix","result":{}}"#);
    assert_eq!(own, FromServer::OwnAnswer(MessageId::from_json("\"fix\"")));
    assert!(session.end_healing(&request.id));
    session.retry(request, 9);
    assert_eq!(undelivered(&session).len(), 1);
    let again = server(&mut session, r#"{"id":10,"result":{}}"#);
    assert!(matches!(&again, FromServer::PassAnswer(request) if request.retries == 1), "{again:?}");
    session.begin_healing(&MessageId::from_json("10"));
    client(&mut session, r#"{"method":"notifications/cancelled","params":{"requestId":10}}"#);
    assert!(!session.end_healing(&MessageId::from_json("10")));
}

#[test]
fn the_settings_say_what_may_be_repeated_where_the_server_does_not() {
    let mut session = greeted();
    let hints = ToolHints { is_read_only: false, is_idempotent: true };
    session.declare(vec![(ToolPattern::new("pay*"), hints)]);
    client(&mut session, &call(10, "pay"));
    assert!(session.server_ended().refuse.is_empty());
    assert_eq!(undelivered(&session).len(), 1);
}

#[test]
fn a_second_answer_to_a_call_that_is_being_healed_reaches_nobody() {
    let mut session = greeted();
    let failed = r#"{"id":10,"result":{"isError":true}}"#;
    client(&mut session, &call(10, "look"));
    assert!(matches!(server(&mut session, failed), FromServer::PassAnswer(_)));
    session.begin_healing(&MessageId::from_json("10"));
    assert_eq!(server(&mut session, failed), FromServer::Drop);
    assert!(session.end_healing(&MessageId::from_json("10")), "the client still waits");
    // What answers nothing that is known passes, as without a proxy.
    assert_eq!(server(&mut session, r#"{"id":"10","result":{}}"#), FromServer::Pass);
    assert_eq!(server(&mut session, failed), FromServer::Pass);
}

/// **Invariant:** A call that tells of progress does not run out of time.
#[test]
fn a_call_that_takes_too_long_is_answered_and_one_that_progresses_is_not() {
    let mut session = greeted();
    let tools = ToolPattern::new("p*");
    session.limit(vec![ToolTimeLimit { tools, limit_ms: 100 }]);
    client(&mut session, &call(10, "pay"));
    client(&mut session, &call(11, "look"));
    client(
        &mut session,
        r#"{"id":12,"method":"tools/call","params":{"name":"plain","_meta":{"progressToken":"t"}}}"#,
    );
    assert!(session.take_overdue(104).is_empty(), "it came at 5");
    let progress =
        r#"{"method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    session.progressed(progress.as_bytes(), 90);
    let overdue = session.take_overdue(105);
    assert_eq!(overdue.len(), 1, "{overdue:?}");
    assert_eq!(overdue[0].id.as_json(), "10");
    assert_eq!(overdue[0].effect, PossibleEffect::MayHaveActed);
    assert_eq!(server(&mut session, r#"{"id":10,"result":{}}"#), FromServer::Drop);
    assert_eq!(session.take_overdue(190)[0].id.as_json(), "12");
    assert!(session.waits_for(&MessageId::from_json("11")), "another tool has no limit");
}
