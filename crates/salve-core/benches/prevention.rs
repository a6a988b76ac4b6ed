//! Checks calls against 10,000 patterns: spread over tools as in real life, and all of one tool.

use divan::{Bencher, black_box};
use salve_core::memory::usage::UsageRecord;
use salve_core::prevention::form::{FormKind, ValueForm};
use salve_core::prevention::index::{PatternIndex, UsagePatternEntry, WorkedBefore};
use salve_core::prevention::mistake::{CallArguments, CallMistake};
use serde_json::{Value, json};

const PATTERNS: usize = 10_000;

fn main() {
    divan::main();
}

/// Makes patterns of every kind, over so many tools.
fn index(tools: usize) -> PatternIndex {
    let at = "2026-03-01T12:00:00Z".parse().unwrap_or_default();
    let pattern = |n: usize| {
        let parameter = format!("p{}", n / tools % 40);
        let mistake = match n / tools % 10 {
            0 => CallMistake::Missing { parameter: format!("m{}", n / tools % 20) },
            1 => {
                let wanted = ValueForm { kind: FormKind::Number, length: None };
                CallMistake::Form { parameter, written: FormKind::Digits, wanted }
            }
            _ => CallMistake::Value { parameter, value: json!(format!("value {n}")) },
        };
        let record = UsageRecord { observations: 20, ..UsageRecord::first(at) };
        let (id, tool) = (format!("pattern-{n}"), format!("tool{}", n % tools));
        UsagePatternEntry { id, tool, category: None, mistake, steps: Vec::new(), record }
    };
    PatternIndex::new((0..PATTERNS).map(pattern).collect())
}

fn arguments() -> CallArguments {
    let one = |n: usize| (format!("p{n}"), json!(format!("value {n}")));
    let missing = (0..20).map(|n| (format!("m{n}"), Value::Bool(true)));
    (2..12).map(one).chain(missing).collect()
}

#[divan::bench(args = [200, 1])]
fn check_one_call(bencher: Bencher<'_, '_>, tools: usize) {
    let (index, arguments) = (index(tools), arguments());
    let now = "2026-03-01T12:00:00Z".parse().unwrap_or_default();
    let worked = WorkedBefore::default();
    bencher.bench(|| index.check(black_box("tool0"), black_box(&arguments), &worked, now));
}
