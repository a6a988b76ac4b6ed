//! Near matches among 1,000,000 known failures: time, recall and memory against the limits.
//!
//! The failures are made up from shapes and a vocabulary whose words are as unevenly common as in
//! real text. A question is a known failure with words dropped, added and reordered and its numbers
//! changed; it counts as recalled when that failure comes first, or one with the very same words.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use salve_core::id::Signature;
use salve_core::near::{IndexOrigin, NearIndex};

const FAILURES: u64 = 1_000_000;
const QUESTIONS: u64 = 4_000;

/// Shapes of normalised failures: `@` is a name, `%` a file, `#` a number, `~` a code.
const SHAPES: &[&str] = &[
    "Cannot find module '@' imported from %",
    "Module not found: Error: Can't resolve '@' in '%' at @",
    "error TS#: Property '@' does not exist on type '@' in %",
    "error TS#: Type '@' is not assignable to type '@' in % function @",
    "error[E#]: cannot find function `@` in module `@` in %",
    "error[E#]: mismatched types expected `@`, found `@` in %",
    "ModuleNotFoundError: No module named '@' in % line @",
    "ImportError: cannot import name '@' from '@' (%)",
    "AttributeError: '@' object has no attribute '@' in % at @",
    "TypeError: Cannot read properties of undefined (reading '@') at @ (%) at @",
    "TypeError: @ is not a function at @.@ (%)",
    "ReferenceError: @ is not defined at @ (%)",
    "AssertionError: expected @ to equal @ in test @ % at @",
    "FAIL % > @ > @ AssertionError: expected <NUM> to be <NUM>",
    "--- FAIL: Test@ %: got @, want @",
    "undefined: @ in package @ %",
    "%: undefined reference to `@' collect2: error: ld returned <NUM> exit status in @",
    "java.lang.NoClassDefFoundError: @ at @.@(%)",
    "java.lang.NullPointerException: Cannot invoke @.@() because @ is null at @(%)",
    "psycopg.errors.UndefinedTable: relation \"@\" does not exist in @ %",
    "ERROR: column \"@\" of relation \"@\" does not exist in migration @",
    "npm error ERESOLVE unable to resolve dependency tree while resolving @ peer @ from @",
    "ERROR: failed to solve: @: failed to resolve source metadata for @ in stage @",
    "error: linking with `cc` failed: unable to find library -l@ in crate @ for @",
    "connect ECONNREFUSED port # service @ from % at @",
    "listen EADDRINUSE: address already in use port # in @ %",
    "~: @ failed in @ while running % step @",
    "KeyError: '@' in % in @ called from @",
    "panicked at %: called `Option::unwrap()` on a `None` value in @::@",
    "SyntaxError: Unexpected token '@' in % near @ after @",
];

/// A small generator of repeatable numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    /// A rank below 400,000, low ranks far more often, as with words of real text.
    fn rank(&mut self) -> u64 {
        let even = (self.roll() >> 11) as f64 / (1_u64 << 53) as f64;
        (400_000_f64.powf(even) - 1.0) as u64
    }

    fn name(&mut self) -> String {
        let mut rank = self.rank() * 7919 + 13;
        let mut name = String::new();
        while rank > 0 {
            name.push(b"bcdfghklmnprstvz"[(rank % 16) as usize].into());
            name.push(b"aeiou"[(rank / 16 % 5) as usize].into());
            rank /= 80;
        }
        name
    }
}

/// Makes the `number`-th failure, always the same.
fn failure(number: u64) -> String {
    let mut dice = Dice(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let shape = SHAPES[dice.below(SHAPES.len() as u64) as usize];
    let mut text = String::new();
    for c in shape.chars() {
        match c {
            '@' => text += &dice.name(),
            '%' => text += &format!("{}.rs", dice.name()),
            '#' => text += &(1000 + dice.below(4000)).to_string(),
            '~' => text += &format!("E{}", dice.name().to_uppercase()),
            c => text.push(c),
        }
    }
    // Two frames of the user's own code, as heads that name nothing have.
    format!("{text} at {} at {}", dice.name(), dice.name())
}

/// Changes a failure as another tool, version or run would.
fn perturb(text: &str, dice: &mut Dice) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    words.retain(|_| dice.below(100) >= 15);
    for word in &mut words {
        if word.bytes().all(|b| b.is_ascii_digit()) {
            *word = dice.below(60_000).to_string();
        }
    }
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(words.len() as u64 + 1) as usize;
        words.insert(at, dice.name());
    }
    for _ in 0..words.len() / 2 {
        let (a, b) = (dice.below(words.len() as u64), dice.below(words.len() as u64));
        words.swap(a as usize, b as usize);
    }
    words.join(" ")
}

fn same_words(a: &str, b: &str) -> bool {
    let set = |text: &str| {
        let parts = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
        parts.collect::<std::collections::BTreeSet<_>>()
    };
    set(a) == set(b)
}

fn main() {
    let start = Instant::now();
    let mut index = NearIndex::new();
    for number in 0..FAILURES {
        index.add(Signature(number), &failure(number));
    }
    let built = start.elapsed();
    let bytes = index.to_bytes(IndexOrigin::default()).to_vec();
    drop(index);
    let start = Instant::now();
    let (index, _) = NearIndex::from_bytes(bytes).unwrap_or_default();
    let loaded = start.elapsed();

    let mut dice = Dice(42);
    let mut times = Vec::new();
    let mut recalled = 0_u64;
    for _ in 0..QUESTIONS {
        let number = dice.below(FAILURES);
        let known = failure(number);
        let question = perturb(&known, &mut dice);
        let mut found = Vec::new();
        // The best of three: another program's turn on the core is not the index's time.
        let ask = |_| {
            let start = Instant::now();
            found = black_box(index.nearest(black_box(&question), 5));
            start.elapsed()
        };
        times.extend((0..3).map(ask).min());
        let first = found.first().map_or(u64::MAX, |near| near.signature.0);
        recalled += u64::from(first == number || same_words(&failure(first), &known));
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    let recall = recalled as f64 / QUESTIONS as f64;
    let memory = index.memory() as f64 / (1 << 20) as f64;

    println!("near: {} failures, {QUESTIONS} questions", index.len());
    println!("  built in {built:.1?}, checked and taken over from bytes in {loaded:.1?}");
    println!("  p50    {:8.1} µs", at(0.5));
    println!("  p99    {:8.1} µs   {:.2} of the limit of 1000 µs", at(0.99), at(0.99) / 1000.0);
    println!("  max    {:8.1} µs", at(1.0));
    println!("  recall {recall:8.3}      limit 0.950");
    println!("  memory {memory:8.1} MiB  {:.2} of the limit of 64 MiB", memory / 64.0);
}
