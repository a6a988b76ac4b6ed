//! Writes the built-in tables of known failures into the program.
//!
//! The tables are TOML files in `data`. Here they are parsed, checked and indexed once, so that
//! no process has to; a row that makes no sense stops the build. Their examples stay behind:
//! they are for tests. What is written is `rows.jsonl`, the rows as text, and `built_in.rs`, the
//! tables that find them, as plain numbers.

#![expect(clippy::disallowed_methods, reason = "a build script reads and writes files")]

#[path = "src/class.rs"]
#[expect(dead_code, unreachable_pub, reason = "the crate uses what this script does not")]
mod class;
#[path = "src/fingerprint/table/mod.rs"]
#[expect(dead_code, unreachable_pub, reason = "the crate uses what this script does not")]
mod table;
#[path = "src/fingerprint/tables.rs"]
mod tables;

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::de::DeserializeOwned;
use table::classes::Classes;
use table::grams::{GramTable, GramWords};
use table::pattern::Pattern;
use table::row::AnchorRow;
use tables::{AnchorFile, ClassFile, NAMES};

fn main() -> Result<(), Box<dyn Error>> {
    let data = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("data");
    println!("cargo::rerun-if-changed={}", data.join("anchors").display());
    println!("cargo::rerun-if-changed={}", data.join("classes.toml").display());
    let anchors = read_anchors(&data.join("anchors"))?;
    let classes = read::<ClassFile>(&data.join("classes.toml"))?.rule;

    let mut patterns: Vec<Vec<Pattern>> = Vec::new();
    for row in &anchors {
        let parsed = row.patterns().map_err(|error| format!("anchor `{}`: {error}", row.id))?;
        patterns.push(parsed.shapes);
    }
    let common = tables::common(&patterns);
    let index = tables::index(&patterns, &common);
    let (classes, errors) = Classes::compile(&classes, &common);
    if let Some((name, error)) = errors.first() {
        return Err(format!("class rule `{name}`: {error}").into());
    }

    let (rows, starts) = lines(anchors)?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    let words = format!("{rows}{:?}{:?}", classes.places, classes.rules);
    fs::write(out.join("rows.jsonl"), rows)?;
    let mut code = String::new();
    writeln!(code, "pub(super) const DIGEST: u64 = {};", digest(words.as_bytes()))?;
    writeln!(code, "pub(super) const COUNT: usize = {};", patterns.len())?;
    writeln!(
        code,
        "static ROWS: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/rows.jsonl\"));"
    )?;
    writeln!(code, "static STARTS: [u32; COUNT + 1] = {starts:?};")?;
    writeln!(
        code,
        "pub(super) static COMMON: Common = Common(Kept::Fixed(&{:?}));",
        &common.0[..]
    )?;
    writeln!(
        code,
        "pub(super) static INDEX: RowIndex = RowIndex {{ words: {}, grams: Grams({}) }};",
        words_code(&index.words),
        table_code(&index.grams.0)
    )?;
    writeln!(
        code,
        "pub(super) static CLASSES: Classes = Classes {{ words: {}, places: Kept::Fixed(&{:?}), \
         rules: Kept::Fixed(&{:?}) }};",
        words_code(&classes.words),
        &*classes.places,
        &*classes.rules
    )?;
    fs::write(out.join("built_in.rs"), code)?;
    Ok(())
}

/// Returns a number that tells these tables from others (FNV-1a): nobody has to be kept from
/// making two tables with the same one.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns a variable that cargo sets.
fn variable(name: &str) -> Result<std::ffi::OsString, String> {
    env::var_os(name).ok_or_else(|| format!("cargo did not set {name}"))
}

/// Reads a table, naming it when that fails.
fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let broken = |error: &dyn Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| broken(&error))?;
    toml::from_str(&text).map_err(|error| broken(&error))
}

/// Reads every anchor table, in the order in which they are numbered.
fn read_anchors(dir: &Path) -> Result<Vec<AnchorRow>, Box<dyn Error>> {
    for entry in dir.read_dir()? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if !stem.is_some_and(|stem| NAMES.contains(&stem)) {
            return Err(format!("{} is no table that `NAMES` lists", path.display()).into());
        }
    }
    let mut rows = Vec::new();
    for name in NAMES {
        rows.extend(read::<AnchorFile>(&dir.join(format!("{name}.toml")))?.anchor);
    }
    Ok(rows)
}

/// Writes the rows without their examples, one to a line; returns where each line starts, too.
fn lines(rows: Vec<AnchorRow>) -> Result<(String, Vec<u32>), Box<dyn Error>> {
    let mut text = String::new();
    let mut starts = vec![0];
    for row in rows {
        let bare = AnchorRow { examples: Vec::new(), counter: Vec::new(), ..row };
        text.push_str(&serde_json::to_string(&bare)?);
        text.push('\n');
        starts.push(u32::try_from(text.len())?);
    }
    Ok((text, starts))
}

/// Returns the code of a table of words.
fn words_code(words: &GramWords) -> String {
    format!(
        "GramWords {{ table: {}, text: Kept::Fixed({:?}), starts: Kept::Fixed(&{:?}), \
         short: Kept::Fixed(&{:?}) }}",
        table_code(&words.table),
        &*words.text,
        &*words.starts,
        &*words.short
    )
}

/// Returns the code of a table of runs.
fn table_code(table: &GramTable) -> String {
    format!(
        "GramTable {{ bits: Kept::Fixed(&{:?}), starts: Kept::Fixed(&{:?}), \
         entries: Kept::Fixed(&{:?}) }}",
        &table.bits[..],
        &*table.starts,
        &*table.entries
    )
}
