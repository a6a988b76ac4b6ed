//! How much memory a Node that ran out of its heap could have instead.

use std::fs;
use std::path::Path;

use salve_core::playbook::HeapRoom;

use super::FailedSubject;

/// The option that says how large Node's heap may be; V8 takes both spellings.
const OPTIONS: [&str; 2] = ["--max-old-space-size", "--max_old_space_size"];

/// Looks at the memory to spare, if the failure is about Node's heap.
pub(super) fn room(ask: &FailedSubject<'_>, output: &str) -> Option<HeapRoom> {
    let speaks = ["heap out of memory", "heap limit", "ERR_WORKER_OUT_OF_MEMORY"];
    if !speaks.iter().any(|words| output.contains(words)) {
        return None;
    }
    let options = ask.variable("NODE_OPTIONS").unwrap_or_default();
    let options = options.to_string_lossy();
    let names_size = |text: &str| OPTIONS.iter().any(|option| text.contains(option));
    Some(HeapRoom {
        had: full_at(output).or_else(|| size_in(&options)),
        spare: spare()?,
        // What npm prints of a script that it runs is part of the output.
        is_fixed: names_size(ask.command)
            || output.lines().any(|line| line.starts_with("> ") && names_size(line)),
        has_options: !options.trim().is_empty(),
    })
}

/// Returns how large the heap was when the collector worked last, in MiB.
///
/// It writes `[4711:0x7f] 61 ms: Mark-Compact 48.9 (51.2) -> 48.1 (51.9) MB`: what is used, and in
/// brackets what the heap holds.
fn full_at(output: &str) -> Option<u64> {
    let line = output.lines().rev().find(|line| {
        ["Mark-sweep", "Mark-Compact", "Scavenge"].iter().any(|kind| line.contains(kind))
    })?;
    let held = line.split('(').skip(1).filter_map(|rest| {
        let (number, _) = rest.split_once(')')?;
        number.trim().parse::<f64>().ok()
    });
    let held = held.fold(None, |most: Option<f64>, one| Some(most.map_or(one, |m| m.max(one))));
    held.map(|held| held.round() as u64)
}

fn size_in(options: &str) -> Option<u64> {
    let word = options.split_whitespace().rev().find_map(|word| {
        let (name, value) = word.split_once('=')?;
        OPTIONS.contains(&name).then_some(value)
    });
    word.and_then(|value| value.parse().ok())
}

/// Returns what the machine has to spare, and the group of processes that we are in, in MiB.
fn spare() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok()?;
    let machine = available(&machine)?;
    Some(group_spare().map_or(machine, |group| group.min(machine)))
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024)
}

/// Returns what the group's limit leaves, if it has one.
fn group_spare() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let base = Path::new("/sys/fs/cgroup");
    let place = base.join(own.trim_start_matches('/'));
    let groups = place.ancestors().take_while(|dir| dir.starts_with(base));
    let left = groups.filter_map(|dir| {
        let number = |name: &str| -> Option<u64> {
            fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
        };
        Some(number("memory.max")?.saturating_sub(number("memory.current")?) >> 20)
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collectors_last_words_tell_how_large_the_heap_was() {
        let told = "<--- Last few GCs --->\n\n\
                    [4711:0x7f] 50 ms: Scavenge 40.9 (50.2) -> 40.1 (50.9) MB, 1 / 0 ms\n\
                    [4711:0x7f] 61 ms: Mark-Compact 48.9 (51.2) -> 48.1 (51.9) MB, 9 / 0 ms\n\n\
                    FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
        assert_eq!(full_at(told), Some(52));
        assert_eq!(full_at("heap out of memory"), None);
        assert_eq!(size_in("--inspect --max-old-space-size=100"), Some(100));
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048000 kB\n"), Some(2000));
    }
}
