//! What a run of the tests comes to: its verdict, and what failed without what varies.

use std::collections::BTreeSet;

use crate::check::Results;
use crate::event::{Digest, ProcessExit, Symptom, TestsSeen, TestsVerdict};
use crate::scrub::{Scrubbed, Scrubber};

/// The most names of failed tests that are kept.
const MOST: usize = 50;

/// One run of the tests, as it came out.
#[derive(Clone, Debug)]
pub struct TestsRun<'r> {
    /// What it showed.
    pub verdict: TestsVerdict,
    /// How the command ended and what the failure is.
    pub symptom: &'r Symptom,
    /// How the command ended.
    pub exit: ProcessExit,
    /// What its output says.
    pub results: &'r Results,
    /// The hash of the tree that was tested.
    pub tree: Option<Digest>,
    /// How long it took.
    pub took_ms: u64,
}

/// Returns what is kept of a run.
pub fn seen(run: &TestsRun<'_>, scrubber: &Scrubber) -> TestsSeen {
    let is_green = run.verdict == TestsVerdict::Green;
    let failed = run.results.failed.iter().filter(|_| !is_green);
    let names: BTreeSet<(&str, &str)> =
        failed.map(|case| (case.file.as_deref().unwrap_or_default(), case.name.as_str())).collect();
    let told = |(file, name): &(&str, &str)| {
        if file.is_empty() || file == name {
            scrubber.scrub(name)
        } else {
            scrubber.scrub(&format!("{file}: {name}"))
        }
    };
    TestsSeen {
        verdict: run.verdict,
        exit: run.exit.clone(),
        key_line: if is_green { Scrubbed::default() } else { run.symptom.key_line.clone() },
        failed: names.iter().take(MOST).map(told).collect(),
        count: run.results.counts.failed.filter(|_| !is_green),
        failing: failing(run, &names),
        tree: run.tree,
        took_ms: run.took_ms,
    }
}

/// Returns the hash of what failed: the names where the output has any, else the failure itself.
fn failing(run: &TestsRun<'_>, names: &BTreeSet<(&str, &str)>) -> Digest {
    let verdict: &[u8] = match run.verdict {
        TestsVerdict::Green => return Digest::of(&[b"green"]),
        TestsVerdict::Red => b"red",
        TestsVerdict::NotExecuted => b"not executed",
    };
    let signature = run.symptom.signature.0.to_le_bytes();
    let mut parts: Vec<&[u8]> = vec![verdict];
    if names.is_empty() {
        parts.push(&signature)
    } else {
        parts.extend(names.iter().flat_map(|(file, name)| [file.as_bytes(), name.as_bytes()]))
    }
    Digest::of(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::read;
    use crate::class::Class;
    use crate::event::Acted;
    use crate::id::Signature;
    use crate::scrub::ScrubKey;

    fn of(verdict: TestsVerdict, output: &str, signature: u64) -> TestsSeen {
        let symptom = Symptom {
            signature: Signature(signature),
            class: Class::TestFailure,
            key_line: Scrubbed::literal("it failed"),
            exit: Some(ProcessExit::Code(1)),
            tree: None,
            acted: Acted::No,
        };
        let results = read(output);
        let run = TestsRun {
            verdict,
            symptom: &symptom,
            exit: ProcessExit::Code(1),
            results: &results,
            tree: None,
            took_ms: 1,
        };
        seen(&run, &Scrubber::new(ScrubKey::new([1; 32])))
    }

    const FIRST: &str = "=== short test summary info ===\n\
                         FAILED test_a.py::test_one - assert 1 == 2\n\
                         FAILED test_b.py::test_two - assert 3 == 4\n2 failed in 0.12s\n";

    #[test]
    fn what_failed_is_the_same_whatever_varies_around_it() {
        use TestsVerdict::{Green, NotExecuted, Red};
        let first = of(Red, FIRST, 1);
        assert_eq!(first.failed.len(), 2, "{first:?}");
        let turned = "=== short test summary info ===\n\
                      FAILED test_b.py::test_two - assert 9 == 4\n\
                      FAILED test_a.py::test_one - assert 1 == 7\n2 failed in 3.40s\n";
        assert_eq!(of(Red, turned, 2).failing, first.failing, "order, values and times vary");
        let fewer = "=== short test summary info ===\n\
                     FAILED test_a.py::test_one - assert 1 == 2\n1 failed in 0.12s\n";
        assert_ne!(of(Red, fewer, 1).failing, first.failing);
        assert_ne!(of(NotExecuted, FIRST, 1).failing, first.failing);
        let silent = of(NotExecuted, "", 1);
        assert_eq!(of(NotExecuted, "", 1).failing, silent.failing);
        assert_ne!(of(NotExecuted, "", 2).failing, silent.failing);
        let green = of(Green, FIRST, 1);
        assert_eq!((green.failed.len(), green.key_line.as_str()), (0, ""));
        assert_eq!(of(Green, "", 2).failing, green.failing);
    }
}
