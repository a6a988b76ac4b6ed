use proptest::prelude::*;

use super::*;

/// Reads a whole run.
fn read(dialect: Dialect, lines: &str) -> (Vec<Sign>, AgentStream) {
    let mut stream = AgentStream::new(dialect);
    let signs = lines.lines().flat_map(|line| stream.line(line)).collect();
    (signs, stream)
}

fn used(tool: &str) -> Sign {
    Sign::Used { tool: tool.into() }
}

fn said(text: &str) -> Sign {
    Sign::Said(text.into())
}

fn result(verdict: AgentVerdict, text: &str) -> Sign {
    Sign::Result { verdict, text: text.into() }
}

fn trouble(kind: Trouble, text: &str) -> Sign {
    Sign::Trouble { kind, text: text.into() }
}

fn retry(kind: Trouble, text: &str, micros: Option<u64>) -> Sign {
    Sign::Retry { kind, text: text.into(), pause: micros.map(Duration::from_micros) }
}

#[test]
fn a_run_of_claude_counts_each_answer_once() {
    let (signs, stream) = read(
        Dialect::Claude,
        r#"
{"type":"system","subtype":"init","session_id":"s1","model":"m","tools":["Read"],"mcp_servers":[]}
{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Looking."}],"usage":{"input_tokens":10,"cache_creation_input_tokens":100,"cache_read_input_tokens":5000,"output_tokens":7}},"session_id":"s1"}
{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t","name":"Read","input":{}}],"usage":{"input_tokens":10,"cache_creation_input_tokens":100,"cache_read_input_tokens":5000,"output_tokens":7}},"session_id":"s1"}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}
{"type":"a_new_thing"}
{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Fixed.","total_cost_usd":0.012345,"usage":{"input_tokens":20,"cache_creation_input_tokens":150,"cache_read_input_tokens":9000,"output_tokens":30}}
"#,
    );
    let first = TokenUsage { input: 110, cached: 5000, output: 7, money_micros: 0 };
    let all = TokenUsage { input: 170, cached: 9000, output: 30, money_micros: 12_345 };
    assert_eq!(
        signs,
        [
            Sign::Session { id: "s1".into() },
            Sign::Spent(first),
            said("Looking."),
            used("Read"),
            Sign::Spent(all),
            result(AgentVerdict::Finished, "Fixed."),
        ]
    );
    assert_eq!(stream.unknown(), 1);
    assert_eq!(all.amounts().tokens, 200);
    assert_eq!(all.amounts().money_micros, 12_345);
}

#[test]
fn what_claude_waits_for_is_told_with_its_count() {
    let (signs, _) = read(
        Dialect::Claude,
        r#"{"type":"system","subtype":"api_retry","attempt":4,"max_retries":10,"retry_delay_ms":4561.1,"error_status":401,"error":"authentication_failed"}"#,
    );
    let text = "authentication failed, attempt 4 of 10, the next in 5 s";
    assert_eq!(signs, [retry(Trouble::Auth, text, Some(4_561_100))]);
}

#[test]
fn what_codex_waits_for_is_told_with_its_count_and_its_warnings_are_none() {
    let (signs, _) = read(
        Dialect::Codex,
        r#"
{"type":"item.completed","item":{"id":"i0","type":"error","message":"Model metadata for `m` not found. Defaulting to fallback metadata."}}
{"type":"error","message":"Reconnecting... 1/5 (unexpected status 401 Unauthorized: invalid key, url: http://127.0.0.1/v1)"}
{"type":"error","message":"Reconnecting... 2/5 (exceeded retry limit, last status: 429 Too Many Requests)"}
{"type":"error","message":"Reconnecting... 3/5"}
"#,
    );
    let refused = "unexpected status 401 Unauthorized: invalid key, attempt 1 of 5";
    let limited = "exceeded retry limit, last status: 429 Too Many Requests, attempt 2 of 5";
    assert_eq!(
        signs,
        [
            retry(Trouble::Auth, refused, None),
            retry(Trouble::RateLimit, limited, None),
            retry(Trouble::Other, "the connection was lost, attempt 3 of 5", None),
        ]
    );
}

#[test]
fn what_gemini_and_opencode_wait_for_stands_among_their_complaints() {
    let told = |dialect, lines: &str| {
        let mut stream = AgentStream::new(dialect);
        lines.split_inclusive('\n').filter_map(|line| stream.complaint(line)).collect::<Vec<_>>()
    };
    let gemini = "Ripgrep is not available. Falling back to GrepTool.\n\
        Attempt 1 failed with status 529. Retrying with backoff... _ApiError: {\"error\":{}}\n\
            at throwErrorIfNotOK (file:///x.js:1:2)\n\
        Attempt 2 failed: This request would exceed your rate limit.\n\
        Suggested retry after 8s.. Retrying after 9241ms...\n";
    let limited = "This request would exceed your rate limit. Suggested retry after 8s, attempt 2, \
                   the next in 9 s";
    assert_eq!(
        told(Dialect::Gemini, gemini),
        [
            retry(Trouble::Overloaded, "status 529, attempt 1", None),
            retry(Trouble::RateLimit, limited, Some(9_241_000)),
        ]
    );
    let opencode = "level=ERROR message=\"stream error\" small=true error.error=\"AI_APICallError: Overloaded\"\n\
        level=ERROR message=\"stream error\" small=false error.error=\"AI_APICallError: Overloaded\"\n\
        level=ERROR message=\"something else\"\n";
    let text = "Overloaded, and it is tried again";
    assert_eq!(told(Dialect::Opencode, opencode), [retry(Trouble::Overloaded, text, None)]);
    assert!(told(Dialect::Claude, opencode).is_empty());
}

#[test]
fn when_geminis_limit_ends_is_told_in_one_line() {
    let line = r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: You exceeded your quota.\nSuggested retry after 3600s.]"}}"#;
    let (signs, _) = read(Dialect::Gemini, line);
    let text = "[API Error: You exceeded your quota. Suggested retry after 3600s.]";
    assert_eq!(signs[1], result(AgentVerdict::Failed, text));
}

#[test]
fn what_claude_writes_is_counted_before_the_run_tells_its_sum() {
    let (_, stream) = read(
        Dialect::Claude,
        r#"
{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":9,"output_tokens":1}}}}
{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}
{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":4000}}}
"#,
    );
    assert_eq!((stream.spent().input, stream.spent().output), (9, 4000));
}

#[test]
fn a_run_of_opencode_adds_its_steps_up() {
    let (signs, stream) = read(
        Dialect::Opencode,
        r#"
{"type":"step_start","sessionID":"ses_1","part":{"type":"step-start","messageID":"m1"}}
{"type":"tool_use","sessionID":"ses_1","part":{"type":"tool","tool":"edit","state":{"status":"completed"}}}
{"type":"step_finish","sessionID":"ses_1","part":{"reason":"tool-calls","messageID":"m1","tokens":{"total":7874,"input":7800,"output":42,"reasoning":8,"cache":{"write":32,"read":100}},"cost":0.01}}
{"type":"step_start","sessionID":"ses_1","part":{"type":"step-start","messageID":"m2"}}
{"type":"text","sessionID":"ses_1","part":{"type":"text","text":"Fixed."}}
{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","messageID":"m2","tokens":{"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.0005}}
"#,
    );
    let all = TokenUsage { input: 7842, cached: 100, output: 55, money_micros: 10_500 };
    assert_eq!(stream.spent(), all);
    assert_eq!(signs.first(), Some(&Sign::Session { id: "ses_1".into() }));
    assert_eq!(signs.last(), Some(&result(AgentVerdict::Finished, "Fixed.")));
    let (signs, _) = read(
        Dialect::Opencode,
        r#"{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"message":"invalid x-api-key","statusCode":401,"isRetryable":false}}}"#,
    );
    let text = "invalid x-api-key";
    assert_eq!(signs, [trouble(Trouble::Auth, text), result(AgentVerdict::Failed, text)]);
}

#[test]
fn claude_without_a_login_or_over_its_limits() {
    let (signs, _) = read(
        Dialect::Claude,
        r#"
{"type":"assistant","message":{"id":"x","content":[{"type":"text","text":"Not logged in · Please run /login"}],"usage":{"input_tokens":0,"output_tokens":0}},"error":"authentication_failed"}
{"type":"system","subtype":"api_retry","attempt":1,"error_status":529,"error":"overloaded"}
{"type":"rate_limit_event","rate_limit_info":{"status":"allowed"}}
{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"}}
{"type":"result","subtype":"success","is_error":true,"result":"Not logged in · Please run /login","total_cost_usd":0}
"#,
    );
    let text = "Not logged in · Please run /login";
    assert_eq!(
        signs,
        [
            said(text),
            trouble(Trouble::Auth, text),
            retry(Trouble::Overloaded, "overloaded, attempt 1", None),
            trouble(Trouble::RateLimit, "the account's limit is reached"),
            trouble(Trouble::Auth, text),
            result(AgentVerdict::Failed, text),
        ]
    );
}

#[test]
fn a_run_of_codex_tells_totals_and_no_money() {
    let (signs, stream) = read(
        Dialect::Codex,
        r#"
{"type":"thread.started","thread_id":"th1"}
{"type":"turn.started"}
{"type":"item.started","item":{"id":"i0","type":"command_execution","command":"ls","status":"in_progress"}}
{"type":"item.completed","item":{"id":"i0","type":"command_execution","command":"ls","exit_code":0,"status":"completed"}}
{"type":"item.started","item":{"id":"i1","type":"mcp_tool_call","server":"salve","tool":"canvas_get_repair_task"}}
{"type":"item.completed","item":{"id":"i2","type":"file_change","changes":[{"path":"a.js","kind":"update"}]}}
{"type":"error","message":"Reconnecting... 1/5 (stream disconnected: 503 Service Unavailable)"}
{"type":"item.completed","item":{"id":"i3","type":"agent_message","text":"Done."}}
{"type":"turn.completed","usage":{"input_tokens":1000,"cached_input_tokens":900,"output_tokens":50,"reasoning_output_tokens":20}}
"#,
    );
    let all = TokenUsage { input: 100, cached: 900, output: 50, money_micros: 0 };
    assert_eq!(signs[0], Sign::Session { id: "th1".into() });
    assert_eq!(
        signs[1..4],
        [used("command_execution"), used("salve.canvas_get_repair_task"), used("file_change")]
    );
    assert!(matches!(&signs[4], Sign::Retry { kind: Trouble::Overloaded, .. }), "{signs:?}");
    assert_eq!(
        signs[5..],
        [said("Done."), Sign::Spent(all), result(AgentVerdict::Finished, "Done.")]
    );
    assert_eq!(stream.unknown(), 0);
}

#[test]
fn codex_over_its_limit_fails() {
    let line = r#"{"type":"turn.failed","error":{"message":"You've hit your usage limit."}}"#;
    let text = "You've hit your usage limit.";
    let (signs, _) = read(Dialect::Codex, line);
    assert_eq!(signs, [trouble(Trouble::RateLimit, text), result(AgentVerdict::Failed, text)]);
}

#[test]
fn a_run_of_gemini_counts_thoughts_as_output() {
    let (signs, stream) = read(
        Dialect::Gemini,
        r#"
Loaded cached credentials.
{"type":"init","timestamp":"2026-01-01T00:00:00Z","session_id":"g1","model":"gemini-pro"}
{"type":"message","role":"user","content":"the task"}
{"type":"tool_use","tool_name":"replace","tool_id":"r-1","parameters":{}}
{"type":"tool_result","tool_id":"r-1","status":"success"}
{"type":"message","role":"assistant","content":"Done.","delta":true}
{"type":"result","status":"success","stats":{"total_tokens":1500,"input_tokens":1200,"output_tokens":100,"cached":1000,"input":200,"duration_ms":5,"tool_calls":1}}
"#,
    );
    let all = TokenUsage { input: 200, cached: 1000, output: 300, money_micros: 0 };
    assert_eq!(
        signs,
        [
            Sign::Session { id: "g1".into() },
            used("replace"),
            said("Done."),
            Sign::Spent(all),
            result(AgentVerdict::Finished, "Done."),
        ]
    );
    assert_eq!(stream.unknown(), 1, "the line that is no JSON");
    let line = r#"{"type":"result","status":"error","error":{"type":"FatalAuthenticationError","message":"set GEMINI_API_KEY"},"stats":{"total_tokens":0}}"#;
    let (signs, _) = read(Dialect::Gemini, line);
    assert_eq!(signs[0], trouble(Trouble::Auth, "set GEMINI_API_KEY"));
    assert_eq!(signs[1], result(AgentVerdict::Failed, "set GEMINI_API_KEY"));
}

#[test]
fn any_programs_text_is_what_it_says() {
    let (signs, stream) = read(
        Dialect::Lines,
        "working\n{\"type\":\"spent\",\"tokens\":5,\"cost_usd\":0.5}\n{\"other\":1}\n\
         {\"type\":\"spent\",\"tokens\":3}\n{\"type\":\"result\",\"ok\":true,\"text\":\"ok\"}",
    );
    let spent = TokenUsage { input: 5, money_micros: 500_000, ..TokenUsage::default() };
    assert_eq!(
        signs,
        [
            said("working"),
            Sign::Spent(spent),
            said("{\"other\":1}"),
            result(AgentVerdict::Finished, "ok"),
        ]
    );
    assert_eq!(stream.spent(), spent, "what was spent never falls");
}

#[test]
fn trouble_is_told_by_its_words() {
    for (text, kind) in [
        ("API Error: 401 Invalid API key", Trouble::Auth),
        ("Credit balance is too low", Trouble::Billing),
        ("RESOURCE_EXHAUSTED: Quota exceeded", Trouble::RateLimit),
        ("Overloaded (529)", Trouble::Overloaded),
        ("something else", Trouble::Other),
    ] {
        assert_eq!(Trouble::of(text), kind, "{text}");
    }
}

fn dialects() -> impl Strategy<Value = Dialect> {
    prop_oneof![
        Just(Dialect::Claude),
        Just(Dialect::Codex),
        Just(Dialect::Gemini),
        Just(Dialect::Lines)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_is_survived_and_costs_never_fall(
        dialect in dialects(),
        lines in prop::collection::vec(
            prop_oneof![
                ".{0,80}",
                "\\{\"type\":\"(result|assistant|turn.completed|spent|error|item.completed)\",\"(usage|stats|tokens|message|total_cost_usd)\":(-?[0-9]{1,25}(e[0-9]{1,3})?|null|\\{\"input_tokens\":[0-9]{1,20}\\}|\"x\")\\}",
            ],
            0..20,
        ),
    ) {
        let mut stream = AgentStream::new(dialect);
        let mut last = TokenUsage::default();
        for line in &lines {
            for sign in stream.line(line) {
                if let Sign::Spent(usage) = sign {
                    prop_assert_eq!(usage, last.max(usage));
                    last = usage;
                }
            }
        }
        prop_assert_eq!(stream.spent(), last);
    }
}

#[test]
fn an_agent_that_tells_no_money_costs_what_the_prices_say() {
    let prices = TokenPrices { input_cents: 125, cached_cents: 13, output_cents: 1000 };
    let mut stream = AgentStream::new(Dialect::Codex).with_prices(Some(prices));
    let done = r#"{"type":"turn.completed","usage":{"input_tokens":3000,"cached_input_tokens":1000,"output_tokens":100}}"#;
    let signs = stream.line(done);
    // 2,000 × $1.25 + 1,000 × $0.13 + 100 × $10 for a million.
    assert_eq!(stream.spent().money_micros, 3_630);
    assert!(matches!(signs[0], Sign::Spent(usage) if usage.money_micros == 3_630), "{signs:?}");
}

#[test]
fn what_an_agent_says_it_costs_counts_where_it_is_more() {
    let prices = TokenPrices { input_cents: 100, cached_cents: 0, output_cents: 0 };
    let mut stream = AgentStream::new(Dialect::Lines).with_prices(Some(prices));
    stream.line(r#"{"type":"spent","tokens":1000}"#);
    assert_eq!(stream.spent().money_micros, 1_000);
    stream.line(r#"{"type":"spent","tokens":1000,"cost_usd":0.01}"#);
    assert_eq!(stream.spent().money_micros, 10_000);
}
