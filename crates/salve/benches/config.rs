//! How long loading the settings takes; every command does it, so the limit is 2 ms.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set its stage should stop")]

use divan::{Bencher, black_box};
use salve::config::{Environment, Sources, load, parse_json, parse_toml};

fn main() {
    divan::main();
}

/// A project with an ordinary file and some variables.
fn project() -> (tempfile::TempDir, Sources) {
    let dir = tempfile::tempdir().unwrap();
    let approve: String = (0..20).map(|n| format!("    \"npm run fix-{n}\",\n")).collect();
    let text = format!(
        "[recovery]\nauto_approve = [\n{approve}]\nrequire_human = [\"rm -rf *\", \"git push\"]\n\
         [repair]\nmax_attempts = 5\n[webhooks]\non_escalation = \"https://a.example/b\"\n"
    );
    std::fs::write(dir.path().join("salve.toml"), text).unwrap();
    let environment: Environment =
        [("AGENT_REPAIR", "1"), ("SALVE_RECOVERY_COOLDOWN_SECONDS", "5")].into_iter().collect();
    let project = Some(dir.path().canonicalize().unwrap());
    (dir, Sources { project, environment, ..Sources::default() })
}

#[divan::bench]
fn load_a_project(bencher: Bencher<'_, '_>) {
    let (_dir, sources) = project();
    bencher.bench(|| load(black_box(&sources)).unwrap());
}

#[divan::bench]
fn load_the_defaults(bencher: Bencher<'_, '_>) {
    bencher.bench(|| load(black_box(&Sources::default())).unwrap());
}

/// The worst that fits: a megabyte in one list.
fn large() -> String {
    let entries = vec!["\"npm ci\""; 100_000].join(",");
    format!("{{\"recovery\": {{\"auto_approve\": [{entries}]}}}}")
}

#[divan::bench(sample_count = 10)]
fn parse_a_megabyte_of_json(bencher: Bencher<'_, '_>) {
    let text = large();
    bencher.bench(|| parse_json(black_box(&text)).unwrap());
}

#[divan::bench(sample_count = 10)]
fn parse_a_megabyte_of_toml(bencher: Bencher<'_, '_>) {
    let entries = vec!["\"npm ci\""; 100_000].join(",");
    let text = format!("recovery.auto_approve = [{entries}]");
    bencher.bench(|| parse_toml(black_box(&text)).unwrap());
}
