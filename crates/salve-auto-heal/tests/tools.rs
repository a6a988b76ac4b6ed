//! Functions that heal themselves: sync, async, methods, and tools of an MCP server.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its stage should stop at once")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock};
use rmcp::{ErrorData, ServiceExt as _, tool, tool_router};
use salve_auto_heal::{
    AutoHeal, HealNote, auto_heal, auto_heal_ephemeral, auto_heal_konflux, auto_heal_stage,
};

/// Where this process is logged in, and how often each login ran.
static LOGINS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
static NOTES: Mutex<Vec<HealNote>> = Mutex::new(Vec::new());

/// Installs a login for each cluster; every test has a cluster of its own, because they may share
/// one process.
static HEALING: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let fixes = tempfile::tempdir().unwrap();
    AutoHeal::from_settings("[[auto_heal.rules]]\nmatch = \"gate is shut\"\nrun = \"exit 3\"\n")
        .unwrap()
        .fixes_in(fixes.path())
        .function("kube_login", |arguments| {
            *LOGINS.lock().unwrap().entry(arguments["cluster"].clone()).or_default() += 1;
            Ok(())
        })
        .observer(|note| NOTES.lock().unwrap().push(note.clone()))
        .install()
        .unwrap();
    fixes
});

fn logins(cluster: &str) -> u32 {
    LazyLock::force(&HEALING);
    LOGINS.lock().unwrap().get(cluster).copied().unwrap_or(0)
}

fn note_of(tool: &str) -> HealNote {
    NOTES.lock().unwrap().iter().find(|note| note.tool == tool).unwrap().clone()
}

struct Pods {
    calls: AtomicU32,
}

#[tool_router(server_handler)]
impl Pods {
    #[auto_heal_ephemeral]
    #[tool(description = "Lists pods")]
    async fn list_pods(
        &self,
        Parameters(wanted): Parameters<BTreeMap<String, String>>,
    ) -> Result<CallToolResult, ErrorData> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let text = |text: &str| vec![ContentBlock::text(text)];
        if logins("ephemeral") == 0 {
            return Ok(CallToolResult::error(text("401 Unauthorized")));
        }
        Ok(CallToolResult::success(text(&format!("the pods of {}", wanted["namespace"]))))
    }
}

/// A tool of a real server, called by a real client, heals: its failed result is never seen.
#[tokio::test]
async fn a_tool_of_an_mcp_server_heals_from_inside() {
    LazyLock::force(&HEALING);
    let (here, there) = tokio::io::duplex(4096);
    let server = tokio::spawn(async move {
        let pods = Pods { calls: AtomicU32::new(0) };
        let running = pods.serve(there).await.unwrap();
        running.waiting().await.unwrap();
    });
    let client = ().serve(here).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    let schema = serde_json::to_string(&tools[0].input_schema).unwrap();
    assert!(schema.contains("object"), "{schema}");
    let mut call = CallToolRequestParams::new("list_pods");
    call.arguments = serde_json::json!({ "namespace": "web" }).as_object().cloned();
    let result = client.call_tool(call).await.unwrap();
    let text = serde_json::to_string(&result).unwrap();
    assert!(text.contains("the pods of web"), "{text}");
    assert_eq!(logins("ephemeral"), 1);
    client.cancel().await.unwrap();
    server.await.unwrap();
}

#[auto_heal(cluster = "prod", max_retries = 1)]
fn read_rows(names: BTreeSet<String>, _: u8) -> Result<usize, std::num::ParseIntError> {
    let text = if logins("prod") == 0 { "401 Unauthorized" } else { "3" };
    let more = names.into_iter().map(|name| name.len()).sum::<usize>();
    let rows = text.parse::<usize>()?;
    Ok(rows + more)
}

/// A `?` in the body, an argument that is used up, and an error that tells nothing: the function
/// returns its own error, and nothing was done.
#[test]
fn an_error_that_nothing_helps_against_is_returned_as_it_is() {
    LazyLock::force(&HEALING);
    assert!(read_rows(BTreeSet::from(["a".to_owned()]), 1).is_err());
    assert_eq!(logins("prod"), 0);
    let note = note_of("read_rows");
    assert_eq!((note.is_healed, &*note.done), (false, &[][..]));
}

#[auto_heal_konflux(max_retries = 2)]
fn build(count: &AtomicU32) -> String {
    count.fetch_add(1, Ordering::SeqCst);
    if logins("konflux") == 0 { "❌ token expired".to_owned() } else { "built".to_owned() }
}

#[test]
fn a_text_that_says_that_it_failed_is_a_failure() {
    let count = AtomicU32::new(0);
    assert_eq!(build(&count), "built");
    assert_eq!((count.into_inner(), logins("konflux")), (2, 1));
    assert!(note_of("build").to_string().ends_with("called `kube_login` and called again: healed"));
}

#[auto_heal_stage(name = "kube_get")]
async fn get(began: &tokio::sync::Barrier) -> Result<String, String> {
    if logins("stage") == 0 {
        began.wait().await;
        return Err("HTTP 401".to_owned());
    }
    Ok("a pod".to_owned())
}

/// **Invariant:** calls that fail for one cause cause one fix, inside of a tool too.
#[tokio::test]
async fn fifty_calls_log_in_once() {
    LazyLock::force(&HEALING);
    let began = tokio::sync::Barrier::new(50);
    let calls = (0..50).map(|_| get(&began));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("a pod")), "{answers:?}");
    assert_eq!(logins("stage"), 1);
}

static PAID: AtomicU32 = AtomicU32::new(0);

#[auto_heal(max_retries = 3)]
fn pay() -> Result<(), String> {
    PAID.fetch_add(1, Ordering::SeqCst);
    Err("the gate is shut: request timeout".to_owned())
}

#[auto_heal(max_retries = 3, read_only)]
fn look() -> Result<(), String> {
    Err("the gate is shut: request timeout".to_owned())
}

#[test]
fn a_call_that_may_have_acted_is_not_repeated() {
    LazyLock::force(&HEALING);
    assert!(pay().is_err());
    assert_eq!(PAID.load(Ordering::SeqCst), 1);
    assert!(note_of("pay").reason.unwrap().contains("may have taken effect"));
    assert!(look().is_err());
    let reason = note_of("look").reason.unwrap();
    assert!(reason.contains("`exit 3` failed"), "its fix was tried, and failed: {reason}");
}
