//! Gives back the program text that starting up needed and that nothing needs any more.
//!
//! Starting up touches most of the program, and whoever waits for a server for hours touches
//! little of it. What was mapped is let go when it has been quiet for a while; what is needed again
//! is mapped again, from the page cache, at the cost of a minor fault.
//!
//! **Invariant:** only ranges that nobody can have written to are let go, so that nothing is lost.

use std::ops::Range;
use std::time::{Duration, Instant};

/// How long it has to be quiet.
const QUIET: Duration = Duration::from_secs(2);
/// How long nothing is let go again.
const REST: Duration = Duration::from_secs(5);

/// Tells when to [`shed`]: when it is quiet, not too often, and never while nothing happens.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageTrimmer {
    due: Option<Instant>,
    last: Option<Instant>,
}

impl PageTrimmer {
    /// Notes that something happened.
    pub fn stir(&mut self, now: Instant) {
        let rested = self.last.map_or(now, |last| last + REST);
        self.due = Some(rested.max(now + QUIET));
    }

    /// Returns when there is something to let go, if ever.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Lets go of what is not needed if it is time to; if not, something else is due.
    pub fn wake(&mut self, now: Instant) {
        match self.due.take_if(|due| *due <= now) {
            Some(_) => {
                self.last = Some(now);
                shed();
            }
            None => self.stir(now),
        }
    }
}

/// Lets go of text and constants of the program and its libraries; whatever is needed comes back
/// by itself.
///
/// Where the kernel does not tell what is mapped, nothing happens.
pub fn shed() {
    if let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") {
        clean(&maps).into_iter().for_each(let_go);
    }
}

#[expect(unsafe_code, reason = "there is no other way to let go of mapped pages")]
fn let_go(range: Range<usize>) {
    let start = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the range is a whole private mapping of a file, without leave to write and, as the
    // kernel says, without a page that differs from the file. It stays mapped, and the next access
    // reads the same bytes from the file, as it would had the kernel been short of memory.
    let _ = unsafe { libc::madvise(start, range.len(), libc::MADV_DONTNEED) };
}

/// Returns the mappings of files that are read or run, and equal the file.
fn clean(maps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in maps.lines() {
        if is_head(line) {
            current = range_of(line);
        } else if line.strip_prefix("Anonymous:").is_some_and(|own| own.trim() != "0 kB") {
            current = None;
        } else if let Some(away) = line.strip_prefix("Swap:") {
            // A page that was written to and is swapped out counts here and nowhere else.
            found.extend(current.take().filter(|_| away.trim() == "0 kB"));
        }
    }
    found
}

/// Returns whether a mapping's lines begin here.
fn is_head(line: &str) -> bool {
    line.split(' ').next().is_some_and(|first| !first.ends_with(':'))
}

/// Returns the range that a mapping's first line names, if it is one of a file to read or run.
fn range_of(line: &str) -> Option<Range<usize>> {
    let mut words = line.splitn(6, ' ');
    let (addresses, leave) = (words.next()?, words.next()?);
    let name = words.nth(3)?.trim_start();
    if !matches!(leave, "r--p" | "r-xp") || !name.starts_with('/') {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?).filter(|range| !range.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(head: &str, own: u32) -> String {
        swapped(head, own, 0)
    }

    fn swapped(head: &str, own: u32, away: u32) -> String {
        format!(
            "{head}\nSize: 4 kB\nRss: 4 kB\nAnonymous:             {own} kB\n\
             Swap:                  {away} kB\nSwapPss:               0 kB\nVmFlags: rd mr\n"
        )
    }

    /// **Invariant:** Only memory that equals its file is given back; the one place that needs
    /// `unsafe`.
    #[test]
    fn only_what_equals_its_file_is_let_go() {
        let maps = [
            mapping("1000-2000 r--p 00000000 fe:00 42       /opt/my salve", 0),
            mapping("2000-5000 r-xp 00001000 fe:00 42       /opt/my salve", 0),
            mapping("5000-6000 r--p 00004000 fe:00 42       /opt/my salve", 4),
            swapped("5800-6000 r--p 00004800 fe:00 42       /opt/my salve", 0, 2),
            mapping("6000-7000 rw-p 00005000 fe:00 42       /opt/my salve", 0),
            mapping("7000-8000 r--s 00005000 fe:00 42       /opt/my salve", 0),
            mapping("8000-9000 ---p 00005000 fe:00 42       /opt/my salve", 0),
            mapping("9000-a000 rw-p 00000000 00:00 0        [heap]", 0),
            mapping("a000-b000 r-xp 00000000 fe:00 43       /lib/libc.so.6", 0),
            mapping("b000-c000 r--p 00000000 00:00 0 ", 0),
            mapping("bc00-bd00 r-xp 00000000 00:00 0        [vdso]", 0),
            mapping("c000-d000 r-xp 00000000 fe:00 44       /opt/my salve (deleted)", 0),
        ]
        .concat();
        let want = vec![0x1000..0x2000, 0x2000..0x5000, 0xa000..0xb000, 0xc000..0xd000];
        assert_eq!(clean(&maps), want);
        assert!(clean("").is_empty());
        assert!(clean("1000 r--p\nAnonymous: 0 kB\n").is_empty());
    }

    #[test]
    fn the_program_goes_on_without_its_text() {
        let maps = || std::fs::read_to_string("/proc/self/smaps").unwrap();
        let before = mapped(&maps());
        shed();
        let after = mapped(&maps());
        assert!(after < before, "{after} of {before} kB are still mapped");
    }

    /// Returns how many kB of clean parts of files are mapped.
    fn mapped(maps: &str) -> u64 {
        let ranges = clean(maps);
        let mut inside = false;
        let mut sum = 0;
        for line in maps.lines() {
            if is_head(line) {
                inside = range_of(line).is_some_and(|range| ranges.contains(&range));
            } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| inside) {
                sum += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
            }
        }
        sum
    }

    #[test]
    fn it_is_let_go_when_it_is_quiet_and_not_too_often() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut trimmer = PageTrimmer::default();
        assert_eq!(trimmer.due(), None);
        trimmer.stir(at(0));
        trimmer.stir(at(5));
        assert_eq!(trimmer.due(), Some(at(7)), "not while things happen");
        trimmer.wake(at(6));
        assert_eq!(trimmer.due(), Some(at(8)), "nor when something else is due");
        trimmer.wake(at(8));
        assert_eq!(trimmer.due(), None, "once is enough");
        trimmer.stir(at(9));
        assert_eq!(trimmer.due(), Some(at(13)), "not at once again");
        trimmer.stir(at(20));
        assert_eq!(trimmer.due(), Some(at(22)));
    }
}
