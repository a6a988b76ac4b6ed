//! A check that watches for edits is ended and told, and is no incident.

use std::time::{Duration, Instant};

use crate::heal::Ward;

/// Watches the directory as a tool does that says nothing when it waits, after telling results.
const SILENT_WATCHER: &str = "\
console.log('Tests:       2 passed, 2 total');
require('fs').watch('.', () => {});
";

/// Tells results early, and then works in silence before it ends.
const SLOW: &str = "\
console.log('Tests:       2 passed, 2 total');
setTimeout(() => process.exit(0), 6000);
";

/// Prints what a watcher says when it waits, and goes on to the end.
const TALKER: &str = "echo 'Watching for file changes.'; sleep 4; echo all is well";

/// Watches the directory after telling results, and waits for an answer before it ends.
const WAITER: &str = "\
console.log('Tests:       2 passed, 2 total');
require('fs').watch('.', () => {});
const server = require('http').createServer((_, answer) => {
  setTimeout(() => answer.end('late'), 7000);
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  require('http').get({ port, host: '127.0.0.1' }, () => process.exit(0));
});
";

#[track_caller]
fn check(ward: &Ward, command: &[&str], code: i32, told: &str) {
    let since = Instant::now();
    let visit = ward.heal(&[&["--"], command].concat());
    assert_eq!(visit.code, Some(code), "{}", visit.said);
    assert!(visit.said.contains(told), "{}", visit.said);
    assert!(since.elapsed() < Duration::from_secs(60), "it was left to its time-out");
    let incidents = ward.salve(&["incidents"]);
    assert!(!incidents.contains("node"), "a command that watches is no incident: {incidents}");
}

#[test]
fn a_check_that_watches_is_ended_and_told_however_it_shows() {
    let ward = Ward::new();
    ward.project.write("once.js", "console.log('ok');\n");
    ward.project.write("silent.js", SILENT_WATCHER);
    ward.project.write("slow.js", SLOW);
    ward.project.write("waiter.js", WAITER);
    let told = "this watches for edits, so it was ended";
    // By what it prints when it waits.
    check(&ward, &["node", "--watch", "once.js"], 2, told);
    // By what it does: it told results, holds watches on files, and is still.
    check(&ward, &["node", "silent.js"], 2, told);
    // One that holds no watches is left to end.
    check(&ward, &["node", "slow.js"], 0, "green");
    // So is one that only says what watchers say, beside one that watches, too.
    check(&ward, &["sh", "-c", TALKER], 0, "green");
    let beside = format!("node silent.js & {TALKER}; kill $!");
    check(&ward, &["sh", "-c", &beside], 0, "green");
    // And one that watches and waits for somebody.
    check(&ward, &["node", "waiter.js"], 0, "green");
    ward.assert_users_work_is_intact();
}
