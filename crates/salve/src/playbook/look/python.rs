//! The Python project around a subject: its virtual environment and what it declares.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use salve_core::playbook::{Clues, Drift, PythonManager, PythonProject, Venv};

mod records;
mod uv_workspace;

use super::super::FailedSubject;
use super::path::plain;
use super::{find, git, nearest, relative};
use crate::files::{FileKind, read_start, read_text};
use crate::process::{asking_command, machine_program};

/// Files that make a directory a Python project.
const SIGNS: &[&str] = &[
    "requirements.txt",
    "pyproject.toml",
    "Pipfile",
    "setup.py",
    "manage.py",
    "uv.lock",
    "poetry.lock",
    ".venv/pyvenv.cfg",
    "venv/pyvenv.cfg",
];

/// Reads the project that the subject belongs to.
pub(super) fn project(
    ask: &FailedSubject<'_>,
    clues: &Clues,
    output: &str,
) -> Option<PythonProject> {
    let dir = SIGNS.iter().find_map(|file| nearest(ask, file))?;
    let dir = uv_workspace::around(ask, &dir).unwrap_or(dir);
    let has = |file: &str| dir.join(file).is_file();
    let (manager, lock) = [
        (PythonManager::Uv, "uv.lock"),
        (PythonManager::Poetry, "poetry.lock"),
        (PythonManager::Pipenv, "Pipfile.lock"),
    ]
    .into_iter()
    .find(|(_, file)| has(file))
    .unwrap_or((PythonManager::Pip, ""));
    let venv = venv(ask, &dir, clues, output);
    let editable = venv.as_ref().is_some_and(|venv| venv.editable);
    let mut sources: Vec<String> = match manager {
        PythonManager::Pip => ["requirements.txt", "requirements-dev.txt", "dev-requirements.txt"]
            .into_iter()
            .filter(|file| has(file))
            .map(str::to_owned)
            .collect(),
        PythonManager::Uv | PythonManager::Poetry | PythonManager::Pipenv => vec![lock.to_owned()],
    };
    // Of a module that is there, a part that is not found is missing in the source.
    let mut own = own_modules(&dir);
    own.retain(|module| clues.imports.iter().any(|import| normalised_top(import) == *module));
    if manager == PythonManager::Pip && (sources.is_empty() || editable || !own.is_empty()) {
        let manifest = ["pyproject.toml", "setup.py"].into_iter().find(|file| has(file));
        sources.extend(manifest.map(str::to_owned));
    }
    let is_workspace = manager == PythonManager::Uv && uv_workspace::is_workspace(&dir);
    if is_workspace {
        own.extend(uv_workspace::declared(&dir));
    }
    let wanted = wanted(&dir);
    let interpreter = interpreter(ask, venv.as_ref());
    let fits = |version: &str| wanted.as_ref().is_none_or(|(want, _)| allows(want, version));
    Some(PythonProject {
        dir: relative(ask.root, &dir)?,
        manager,
        is_workspace,
        manager_found: manager == PythonManager::Pip || find(manager.program()).is_some(),
        declared: declared(&dir).into_iter().chain(own).collect(),
        required: match &venv {
            Some(venv) if !clues.imports.is_empty() => required(&ask.root.join(&venv.path)),
            Some(_) | None => BTreeSet::new(),
        },
        interpreter_fits: interpreter.as_ref().is_some_and(|(_, version)| fits(version)),
        interpreter,
        drift: venv.as_ref().map(|venv| drift(ask, &dir, venv)).unwrap_or_default(),
        damaged: venv.as_ref().map(|venv| records::damaged(ask, venv, output)).unwrap_or_default(),
        sources,
        venv,
        wanted,
    })
}

/// Returns the distributions whose version in the environment is not the one that the lockfile or
/// the requirements ask for.
fn drift(ask: &FailedSubject<'_>, dir: &Path, venv: &Venv) -> Vec<Drift> {
    let wanted = pinned(dir);
    if wanted.is_empty() {
        return Vec::new();
    }
    let present: BTreeMap<String, String> = site_packages(&ask.root.join(&venv.path))
        .flat_map(|packages| records::distributions(&packages))
        .map(|(name, version, _)| (name, version))
        .collect();
    let differs = |(name, wanted): (String, String)| {
        let present = present.get(&name).filter(|present| **present != wanted)?.clone();
        Some(Drift { name, present, wanted })
    };
    wanted.into_iter().filter_map(differs).collect()
}

/// Returns the versions that the project fixes, by normalised name: of its lockfile, else of its
/// requirements.
fn pinned(dir: &Path) -> BTreeMap<String, String> {
    let lock = ["uv.lock", "poetry.lock"].iter().find_map(|file| {
        let text = read_text(&dir.join(file), FileKind::Bulk).ok()?;
        toml::from_str::<toml::Value>(&text).ok()
    });
    if let Some(lock) = lock {
        let packages = lock.get("package").and_then(toml::Value::as_array);
        let text = |package: &toml::Value, key| Some(package.get(key)?.as_str()?.to_owned());
        let pair = |package: &toml::Value| {
            Some((normalised(&text(package, "name")?), text(package, "version")?))
        };
        return packages.into_iter().flatten().filter_map(pair).collect();
    }
    let mut found = BTreeMap::new();
    for file in ["requirements.txt", "requirements-dev.txt", "dev-requirements.txt"] {
        let text = read_text(&dir.join(file), FileKind::Document).unwrap_or_default();
        for line in text.lines() {
            // Only for some platforms: whether it is meant here is not told.
            let Some((_, version)) = line.split_once("==").filter(|_| !line.contains(';')) else {
                continue;
            };
            let version = version.split([' ', '#', '\\', ',']).next().unwrap_or_default();
            let plain = !version.is_empty() && !version.contains('*');
            found.extend(name_in(line).filter(|_| plain).map(|name| (name, version.to_owned())));
        }
    }
    found
}

/// Returns the programs that the failure names and that the environment has.
pub(super) fn programs(
    ask: &FailedSubject<'_>,
    python: &PythonProject,
    clues: &Clues,
) -> BTreeSet<String> {
    let Some(venv) = &python.venv else { return BTreeSet::new() };
    let bin = ask.root.join(&venv.path).join("bin");
    let has = |name: &&String| !name.contains('/') && bin.join(name).exists();
    clues.programs.iter().filter(has).cloned().collect()
}

/// How many directories are searched for compiled files, and how deep.
const SEARCHED: (usize, usize) = (2_000, 8);

/// Returns the directories of compiled files in the project, if the failure may be about them.
pub(super) fn bytecode(ask: &FailedSubject<'_>, output: &str) -> Vec<String> {
    let speaks = ["marshal", "magic number", "EOF read", "has this __file__ attribute"]
        .iter()
        .any(|word| output.contains(word));
    let (mut left, depth) = SEARCHED;
    let mut found = Vec::new();
    let mut open = if speaks { vec![(ask.root.to_path_buf(), depth)] } else { Vec::new() };
    while let Some((dir, depth)) = open.pop() {
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let (path, name) = (entry.path(), entry.file_name());
            if name == "__pycache__" {
                found.extend(relative(ask.root, &path));
            } else if depth > 0 && left > 0 && !is_foreign(&path) {
                left -= 1;
                open.push((path, depth - 1));
            }
        }
    }
    found
}

/// Returns whether a directory holds other people's code.
fn is_foreign(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default();
    let known = [".git", "node_modules", ".salve", "target"].iter().any(|known| name == *known);
    known || dir.join("pyvenv.cfg").exists()
}

/// How many distributions' lists of files are looked at.
const RECORDS: usize = 1_000;

/// Returns which of the modules that the failure names the environment has.
pub(super) fn installed(
    ask: &FailedSubject<'_>,
    python: &PythonProject,
    clues: &Clues,
) -> BTreeSet<String> {
    let Some(venv) = &python.venv else { return BTreeSet::new() };
    let packages: Vec<PathBuf> = site_packages(&ask.root.join(&venv.path)).collect();
    let has = |module: &&String| {
        let top = module.split('.').next().unwrap_or(module);
        let is_there = |dir: &PathBuf| {
            let there = dir.join(top).exists() || dir.join(format!("{top}.py")).exists();
            there && !is_lost(dir, module)
        };
        packages.iter().any(is_there)
    };
    clues.imports.iter().filter(has).cloned().collect()
}

/// Returns whether a distribution that is installed in `packages` brought the part of a package
/// that `module` names, and it is gone.
fn is_lost(packages: &Path, module: &str) -> bool {
    let path = module.replace('.', "/");
    let files = [format!("{path}/__init__.py"), format!("{path}.py")];
    if !module.contains('.') || files.iter().any(|file| packages.join(file).exists()) {
        return false;
    }
    let names = fs::read_dir(packages).into_iter().flatten().flatten();
    let records = names.map(|entry| entry.path().join("RECORD")).filter(|path| path.is_file());
    let lists = |record: PathBuf| {
        let text = read_text(&record, FileKind::Document).unwrap_or_default();
        text.lines().any(|line| files.iter().any(|file| line.split(',').next() == Some(file)))
    };
    records.take(RECORDS).any(lists)
}

/// Returns the environment that the command or the failure names, else the usual one.
fn venv(ask: &FailedSubject<'_>, dir: &Path, clues: &Clues, output: &str) -> Option<Venv> {
    let words = ask
        .command
        .split([' ', '\'', '"', ';', '&'])
        .chain(clues.programs.iter().map(String::as_str));
    let named = words.filter_map(|word| word.split_once("/bin/").map(|(dir, _)| dir));
    let named = named.filter_map(|path| {
        let path = plain(&ask.dir.join(path));
        let inside = path.starts_with(ask.root) && path != ask.root;
        let like = path.file_name()?.to_str()?.contains("env");
        (inside && (like || path.join("pyvenv.cfg").exists())).then_some(path)
    });
    let usual = [".venv", "venv", "env"].map(|name| dir.join(name));
    let usual = usual
        .into_iter()
        .filter(|path| path.join("pyvenv.cfg").exists() || path.join("bin/activate").exists());
    let named: Vec<PathBuf> = named.collect();
    let path = named.first().cloned().or_else(|| usual.into_iter().next())?;
    let relative = relative(ask.root, &path)?;
    let exists = path.is_dir();
    let active = ask.variable("VIRTUAL_ENV").is_some_and(|active| Path::new(&active) == path);
    let broken = if exists { broken(ask.root, &path) } else { None };
    Some(Venv {
        exists,
        broken,
        derived: !git::is_tracked(ask.root, &relative),
        used: active
            || !named.is_empty()
            || output.contains(&format!("{relative}/"))
            || wraps(ask.command),
        editable: site_packages(&path).any(|dir| is_editable(&dir)),
        path: relative,
    })
}

/// Returns whether the command chooses the environment by itself.
fn wraps(command: &str) -> bool {
    ["uv run", "poetry run", "pipenv run"].iter().any(|word| command.contains(word))
}

fn site_packages(venv: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let libs = fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
    libs.map(|entry| entry.path().join("site-packages")).filter(|path| path.is_dir())
}

fn is_editable(dir: &Path) -> bool {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .any(|name| name.starts_with("__editable__") || name.ends_with(".egg-link"))
}

/// Returns what is wrong with an environment.
fn broken(root: &Path, venv: &Path) -> Option<String> {
    let Ok(python) = venv.join("bin/python").canonicalize() else {
        return Some("its interpreter is gone".to_owned());
    };
    if !venv.join("pyvenv.cfg").is_file() {
        return Some("it has no pyvenv.cfg".to_owned());
    }
    // An interpreter that lies in the project itself may be anything: it is not asked.
    let is_own = python.starts_with(root);
    let version = if is_own { version_kept(venv) } else { version_of(&python) };
    if version.is_none() && !is_own {
        return Some("its interpreter does not run".to_owned());
    }
    let lib = |minor: &str| venv.join(format!("lib/python{minor}/site-packages")).is_dir();
    if let Some(minor) = version.map(|version| short(&version)).filter(|minor| !lib(minor)) {
        return Some(format!("it was made for another Python than {minor}"));
    }
    let scripts = fs::read_dir(venv.join("bin")).into_iter().flatten().flatten();
    let moved = scripts.take(SCRIPTS).any(|script| is_stranded(&script.path()));
    moved.then(|| "it was moved".to_owned())
}

/// How many programs of an environment are looked at.
const SCRIPTS: usize = 200;

/// Returns whether a script wants an interpreter that is not there.
fn is_stranded(script: &Path) -> bool {
    let start = read_start(script, 256).unwrap_or_default();
    let line = start.strip_prefix(b"#!");
    let line = line.and_then(|text| text.split(|byte| *byte == b'\n').next());
    let program = line.and_then(|line| std::str::from_utf8(line).ok()?.split_whitespace().next());
    program.is_some_and(|program| program.starts_with('/') && !Path::new(program).exists())
}

fn version_of(program: &Path) -> Option<String> {
    let asked = asking_command(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    let version = text.trim().strip_prefix("Python ")?.to_owned();
    asked.status.success().then_some(version)
}

/// Returns the version that an environment was made for, by its own settings.
fn version_kept(venv: &Path) -> Option<String> {
    let config = read_text(&venv.join("pyvenv.cfg"), FileKind::Note).ok()?;
    config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        key.trim().starts_with("version").then(|| value.trim().to_owned())
    })
}

/// Returns the first two numbers of a version.
fn short(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Returns an interpreter outside every environment, the environment's own version first.
fn interpreter(ask: &FailedSubject<'_>, venv: Option<&Venv>) -> Option<(String, String)> {
    let had = venv.and_then(|venv| version_kept(&ask.root.join(&venv.path)));
    let had = had.map(|version| short(&version));
    let names = had.map(|minor| format!("python{minor}")).into_iter();
    let names = names.chain(["python3".to_owned(), "python".to_owned()]);
    let outside =
        |name: &str| Some(machine_program(name, ask.root)).filter(|program| program.exists());
    let found = names.filter_map(|name| outside(&name).map(|path| (name, path)));
    found.into_iter().find_map(|(name, path)| Some((name, version_of(&path)?)))
}

fn wanted(dir: &Path) -> Option<(String, String)> {
    if let Ok(text) = read_text(&dir.join(".python-version"), FileKind::Note) {
        let first = text.lines().next().unwrap_or_default().trim();
        return Some((format!("=={}.*", short(first)), ".python-version".to_owned()));
    }
    let manifest: toml::Value =
        toml::from_str(&read_text(&dir.join("pyproject.toml"), FileKind::Document).ok()?).ok()?;
    let project = manifest.get("project").and_then(|p| p.get("requires-python"));
    let poetry = || manifest.get("tool")?.get("poetry")?.get("dependencies")?.get("python");
    let text = project.or_else(poetry)?.as_str()?.to_owned();
    Some((text, "pyproject.toml".to_owned()))
}

/// Returns whether a version fits a specifier, as far as its first two numbers tell.
fn allows(specifier: &str, version: &str) -> bool {
    let pair = |text: &str| -> Option<(u32, u32)> {
        let mut parts = text.trim().split('.').map(str::parse::<u32>);
        let major = parts.next()?.ok()?;
        Some((major, parts.next().and_then(Result::ok).unwrap_or(0)))
    };
    let Some(have) = pair(version) else { return false };
    specifier.split(',').all(|part| {
        let part = part.trim();
        let sign: String = part.chars().take_while(|c| "<>=~^!".contains(*c)).collect();
        let Some(want) = pair(part[sign.len()..].trim_end_matches(".*")) else { return true };
        match sign.as_str() {
            ">=" => have >= want,
            ">" => have >= want,
            "<" => have < want,
            "<=" => have <= want,
            "^" | "~=" => have >= want && have.0 == want.0,
            "==" | "" | "~" => have == want,
            _ => true,
        }
    })
}

/// Returns the distributions that the project's files name, normalised.
fn declared(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in ["requirements.txt", "requirements-dev.txt", "dev-requirements.txt"] {
        let text = read_text(&dir.join(file), FileKind::Document).unwrap_or_default();
        found.extend(text.lines().filter_map(name_in));
    }
    let parse = |file: &str| {
        let text = read_text(&dir.join(file), FileKind::Document).ok()?;
        toml::from_str::<toml::Value>(&text).ok()
    };
    if let Some(manifest) = parse("pyproject.toml") {
        collect(manifest.get("project").and_then(|p| p.get("dependencies")), &mut found);
        collect(manifest.get("project").and_then(|p| p.get("optional-dependencies")), &mut found);
        collect(manifest.get("dependency-groups"), &mut found);
        let poetry = manifest.get("tool").and_then(|tool| tool.get("poetry"));
        let table = poetry.and_then(|p| p.get("dependencies")).and_then(toml::Value::as_table);
        found.extend(table.into_iter().flat_map(|t| t.keys()).filter_map(|key| name_in(key)));
    }
    if let Some(pipfile) = parse("Pipfile") {
        let tables = ["packages", "dev-packages"]
            .map(|key| pipfile.get(key).and_then(toml::Value::as_table));
        found.extend(
            tables.into_iter().flatten().flat_map(|t| t.keys()).filter_map(|key| name_in(key)),
        );
    }
    found
}

/// How much of what a distribution says about itself is read.
const ABOUT: u64 = 64 << 10;

/// Returns the distributions that those in an environment always require, normalised.
fn required(venv: &Path) -> BTreeSet<String> {
    let dirs =
        site_packages(venv).flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let about = dirs.map(|entry| entry.path().join("METADATA")).filter(|file| file.is_file());
    let texts = about.take(RECORDS).filter_map(|file| read_start(&file, ABOUT).ok());
    texts.flat_map(|text| requirements_in(&String::from_utf8_lossy(&text))).collect()
}

/// Returns what a distribution always requires; what only an extra or another platform wants is
/// left out.
fn requirements_in(about: &str) -> BTreeSet<String> {
    let head = about.split("\n\n").next().unwrap_or_default();
    let lines = head.lines().filter_map(|line| line.strip_prefix("Requires-Dist:"));
    lines.filter(|line| !line.contains(';')).filter_map(name_in).collect()
}

/// Returns the modules that the project itself brings once it is installed, normalised.
fn own_modules(dir: &Path) -> BTreeSet<String> {
    let manifest = read_text(&dir.join("pyproject.toml"), FileKind::Document).ok();
    let manifest = manifest.and_then(|text| toml::from_str::<toml::Value>(&text).ok());
    let is_built = manifest.as_ref().is_some_and(|manifest| {
        let poetry = manifest.get("tool").and_then(|tool| tool.get("poetry"));
        let name = manifest.get("project").or(poetry).and_then(|project| project.get("name"));
        name.is_some() && manifest.get("build-system").is_some()
    });
    if !is_built && !dir.join("setup.py").is_file() {
        return BTreeSet::new();
    }
    let below = [dir.join("src"), dir.to_path_buf()];
    let entries = below.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let packages = entries.filter(|entry| entry.path().join("__init__.py").is_file());
    packages.map(|entry| normalised(&entry.file_name().to_string_lossy())).collect()
}

/// Returns a module's name as distributions are compared, unless it is a part of another.
fn normalised_top(module: &str) -> String {
    if module.contains('.') { String::new() } else { normalised(module) }
}

/// Returns a name as distributions are compared.
fn normalised(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Adds the names in lists of requirements, however deep.
fn collect(value: Option<&toml::Value>, found: &mut BTreeSet<String>) {
    match value {
        Some(toml::Value::String(text)) => found.extend(name_in(text)),
        Some(toml::Value::Array(list)) => list.iter().for_each(|one| collect(Some(one), found)),
        Some(toml::Value::Table(table)) => table.values().for_each(|one| collect(Some(one), found)),
        Some(_) | None => {}
    }
}

/// Returns the distribution that a line of requirements names.
fn name_in(line: &str) -> Option<String> {
    let line = line.trim();
    let egg = line.split_once("#egg=").map(|(_, name)| name);
    let end = |c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c));
    let name = egg.unwrap_or(line).split(end).next()?;
    let plain = !line.is_empty() && (egg.is_some() || !line.starts_with(['#', '-', '.', '/']));
    (plain && !name.is_empty()).then(|| normalised(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_distribution_requires_is_read_from_what_it_says_about_itself() {
        let about = "Metadata-Version: 2.1\nName: pytest\nRequires-Dist: iniconfig\n\
                     Requires-Dist: Typing_Extensions (>=4)\n\
                     Requires-Dist: colorama; sys_platform == \"win32\"\n\
                     Requires-Dist: argcomplete ; extra == 'dev'\n\nRequires-Dist: prose\n";
        let found: Vec<_> = requirements_in(about).into_iter().collect();
        assert_eq!(found, ["iniconfig", "typing-extensions"]);
    }

    #[test]
    fn a_part_of_a_package_is_lost_if_its_distribution_brought_it() {
        let packages = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = packages.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let record = "shop/__init__.py,sha256=x,1\nshop/core/__init__.py,,\nshop/urls.py,,\n";
        write("shop-1.0.dist-info/RECORD", record);
        write("shop/__init__.py", "");
        write("shop/urls.py", "");
        let is_lost = |module| is_lost(packages.path(), module);
        assert!(is_lost("shop.core"));
        for other in ["shop", "shop.urls", "shop.never", "other.core"] {
            assert!(!is_lost(other), "{other}");
        }
    }

    #[test]
    fn an_interpreter_in_the_project_is_not_run_to_look_at_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let project = tempfile::tempdir().unwrap();
        let root = project.path().canonicalize().unwrap();
        let venv = root.join(".venv");
        for dir in ["bin", "lib/python3.11/site-packages"] {
            fs::create_dir_all(venv.join(dir)).unwrap();
        }
        let python = venv.join("bin/python");
        fs::write(&python, format!("#!/bin/sh\ntouch {}/ran\n", root.display())).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(venv.join("pyvenv.cfg"), "home = /usr/bin\nversion = 3.11.2\n").unwrap();
        assert_eq!(broken(&root, &venv), None, "its own settings tell the version");
        fs::write(venv.join("pyvenv.cfg"), "home = /usr/bin\nversion = 3.12.0\n").unwrap();
        assert!(broken(&root, &venv).is_some());
        assert!(!root.join("ran").exists());
    }
}
