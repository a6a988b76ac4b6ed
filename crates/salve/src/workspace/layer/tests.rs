//! Layers over real trees, with real commands in them.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use proptest::prelude::*;

use super::*;
use crate::workspace::tests::{Place, git_in, gits_own, name};
use crate::workspace::{Again, FileFate, Give};

/// The variables by which this test program knows what to become.
const BECOME: [&str; 2] = ["SALVE_TEST_LAYER_PART", "SALVE_TEST_LAYER_WHAT"];

/// Returns how this test program becomes a part of a layer, since its own arguments are not free.
pub(super) fn launcher(part: &str, what: &OsStr) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
    let test = "workspace::layer::tests::becomes_part_of_a_layer";
    let words = ["/proc/self/exe", "--exact", test, "--nocapture", "--test-threads=1"];
    let env = vec![(BECOME[0].into(), part.into()), (BECOME[1].into(), what.to_owned())];
    (words.map(OsString::from).to_vec(), env)
}

/// Only the launcher: as a test it has nothing to do.
#[test]
fn becomes_part_of_a_layer() {
    if let [Some(part), Some(what)] = BECOME.map(std::env::var_os)
        && let Some(code) = enter_layer([part, what].into_iter())
    {
        // The harness has an exit code of its own.
        let code = format!("{code:?}").chars().filter(char::is_ascii_digit).collect::<String>();
        std::process::exit(code.parse().unwrap_or(126));
    }
}

/// Runs a shell script in a layer and returns how it ended.
fn run_with(layer: &PrivateLayer, script: &str, writable: Vec<PathBuf>) -> Output {
    let argv = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
    let command =
        LayerCommand { argv, dir: layer.root.clone(), writable, sight: LayerSight::Agent };
    let LayerLaunch { argv, dir, env } = layer.launch(&command).unwrap();
    let (program, args) = argv.split_first().unwrap();
    Command::new(program).args(args).envs(env).current_dir(dir).output().unwrap()
}

#[track_caller]
fn run(layer: &PrivateLayer, script: &str) -> String {
    let output = run_with(layer, script, Vec::new());
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the means of this machine. The threads of a test program keep an ordinary user from a
/// namespace of its own, so that its unit tests see the copy; a story sees the overlay.
fn overlay() -> &'static LayerMeans {
    LayerMeans::here()
}

fn is_overlay() -> bool {
    matches!(overlay(), LayerMeans::Overlay { .. })
}

fn project() -> Place {
    let place = Place::new();
    place.write("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    place.write("dir/b.txt", "b\n");
    place.write("dir/deep/c.txt", "c\n");
    place.write("run.sh", "#!/bin/sh\n");
    place.write("salve.toml", "version = 1\n");
    place.write(".mcp.json", "{}\n");
    place.write(".gitignore", "node_modules/\n.env\n*.log\n");
    place.write(".env", "KEY=1\n");
    place.write("node_modules/dep/index.js", "dep\n");
    place.commit_all();
    place
}

const WORK: &str = "echo agent >> dir/b.txt && rm dir/deep/c.txt && rmdir dir/deep && \
    chmod 755 run.sh && ln -s a.txt link && printf 'a\\000b' > binary && mkdir -p new/empty && \
    mv a.txt moved.txt && echo more >> .env && \
    echo 'auto_approve = [\"rm -rf /\"]' >> salve.toml && rm .mcp.json && \
    mkdir -p .claude .vscode __pycache__ && echo '{}' > .claude/settings.json && \
    echo '{}' > .vscode/tasks.json && echo x > __pycache__/m.pyc && \
    { echo hack >> node_modules/dep/index.js || true; } && git -c user.name=A -c user.email=a@example.com commit -qam wip && echo log > x.log";

/// What the real tree holds once [`WORK`] was taken over.
fn check_taken(place: &Place) {
    let read = |path: &str| fs::read_to_string(place.root().join(path));
    assert_eq!(read("dir/b.txt").unwrap(), "b\nagent\n");
    assert!(!place.root().join("dir/deep").exists() && !place.root().join("a.txt").exists());
    assert_eq!(fs::read_link(place.root().join("link")).unwrap(), Path::new("a.txt"));
    assert_eq!(fs::read(place.root().join("binary")).unwrap(), b"a\0b");
    assert!(place.root().join("new/empty").is_dir());
    assert!(read("moved.txt").unwrap().starts_with("one\n"));
    assert_eq!(read(".env").unwrap(), "KEY=1\nmore\n");
    let mode = fs::metadata(place.root().join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(read("salve.toml").unwrap(), "version = 1\n");
    assert_eq!(read(".mcp.json").unwrap(), "{}\n");
    assert_eq!(read("node_modules/dep/index.js").unwrap(), "dep\n");
    for out in [".claude", ".vscode/tasks.json", "__pycache__", "x.log"] {
        assert!(!place.root().join(out).exists(), "{out}");
    }
}

#[test]
fn what_an_agent_did_is_measured_taken_over_and_taken_back_exactly() {
    for means in [overlay(), &LayerMeans::Copy] {
        let place = project();
        let workspace = place.open();
        let before = workspace.snapshot(name(1)).unwrap();
        let (old, own) = (place.picture(), gits_own(&place.root()));
        let layer = workspace.private_layer_by(&before, means).unwrap();
        run(&layer, WORK);
        assert_eq!(place.picture(), old, "{means:?}: the real tree is as it was");
        let change = workspace.layer_change(&before, &layer).unwrap();
        let told: Vec<_> =
            change.measured.files.iter().map(|file| (file.path.as_str(), file.fate)).collect();
        let want = [
            ("a.txt", FileFate::Removed),
            ("binary", FileFate::Created),
            ("dir/b.txt", FileFate::Changed),
            ("dir/deep/c.txt", FileFate::Removed),
            ("link", FileFate::Created),
            ("moved.txt", FileFate::Created),
            ("run.sh", FileFate::Changed),
        ];
        assert_eq!(told, want, "{means:?}");
        assert_eq!(change.sealed.len(), 4, "{:?}", change.sealed);
        let taken = workspace.take_over(&before, &change.measured.after).unwrap();
        assert!(taken.merged.is_empty());
        check_taken(&place);
        workspace.take_back(&taken.before, &taken.after).unwrap();
        assert_eq!(place.picture(), old, "{means:?}");
        assert_eq!(gits_own(&place.root()), own);
    }
}

#[test]
fn a_check_in_the_layer_sees_the_change_and_nothing_that_is_left_out() {
    let place = project();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    let layer = workspace.private_layer_by(&before, overlay()).unwrap();
    run(&layer, WORK);
    workspace.leave_out(&before, &layer).unwrap();
    let seen = run(&layer, "cat salve.toml .mcp.json node_modules/dep/index.js dir/b.txt");
    assert!(seen.contains("version = 1\n{}\ndep\nb\nagent\n"), "{seen}");
    assert!(!seen.contains("auto_approve") && !seen.contains("hack"));
    let change = workspace.layer_change(&before, &layer).unwrap();
    assert_eq!((change.measured.files.len(), change.sealed.len(), change.derived), (7, 0, 0));
}

/// **Invariant:** A patch is tried in a layer and is exactly the layer's change.
#[test]
fn a_patch_in_a_layer_is_its_change_and_leaves_the_tree_as_it_was() {
    for means in [overlay(), &LayerMeans::Copy] {
        let place = project();
        let workspace = place.open();
        let before = workspace.snapshot(name(1)).unwrap();
        let old = place.picture();
        place.write("dir/b.txt", "b\nmended\n");
        place.write("new/deep.sh", "#!/bin/sh\n");
        let script = place.root().join("new/deep.sh");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("a.txt", place.root().join("link")).unwrap();
        fs::remove_dir_all(place.root().join("dir/deep")).unwrap();
        fs::write(place.root().join("dir/deep"), "a file now\n").unwrap();
        let mended = workspace.measure(&before).unwrap();
        let patch = workspace.patches().between(&before, &mended.after).unwrap();
        let picture = place.picture();
        workspace.restore(&before, Give::All).unwrap();
        assert_eq!(place.picture(), old);
        let before = workspace.snapshot(name(2)).unwrap();
        let layer = workspace.private_layer_by(&before, means).unwrap();
        workspace.patches().apply_in(&layer, &patch).unwrap();
        assert_eq!(place.picture(), old, "{means:?}: the real tree is as it was");
        let seen = run(&layer, "cat dir/b.txt dir/deep");
        assert!(seen.ends_with("b\nmended\na file now\n"), "{means:?}: {seen}");
        let change = workspace.layer_change(&before, &layer).unwrap();
        workspace.take_over(&before, &change.measured.after).unwrap();
        assert_eq!(place.picture(), picture, "{means:?}");
    }
}

#[test]
fn a_pipe_in_a_files_place_is_no_change_and_no_check_waits_for_it() {
    if !is_overlay() {
        return;
    }
    let place = project();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    let layer = workspace.private_layer_by(&before, overlay()).unwrap();
    run(&layer, "rm run.sh && mkfifo run.sh extra && echo more >> a.txt");
    let change = workspace.layer_change(&before, &layer).unwrap();
    let told: Vec<_> = change.measured.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(told, ["a.txt"]);
    workspace.leave_out(&before, &layer).unwrap();
    let seen = run(&layer, "cat run.sh; [ -e extra ] || tail -n 1 a.txt");
    assert!(seen.ends_with("#!/bin/sh\nmore\n"), "{seen}");
}

#[test]
fn what_takes_the_place_of_the_users_own_files_is_refused_and_named() {
    for (work, named) in [
        ("rm -r dir && echo x > dir", "dir/mine.txt"),
        ("rm -r dir && ln -s new dir", "dir/mine.txt"),
        ("rm draft.txt && mkdir draft.txt && echo x > draft.txt/x", "draft.txt"),
        ("rm .env && mkdir .env && echo x > .env/x.md", ".env"),
    ] {
        let place = project();
        place.write("dir/mine.txt", "mine\n");
        place.write("draft.txt", "mine\n");
        let workspace = place.open();
        let before = workspace.snapshot(name(1)).unwrap();
        let layer = workspace.private_layer_by(&before, overlay()).unwrap();
        run(&layer, work);
        let refused = workspace.layer_change(&before, &layer).unwrap_err().to_string();
        assert!(refused.contains(named), "{work}: {refused}");
    }
}

#[test]
fn what_is_too_large_to_be_kept_is_left_out_and_keeps_nothing_else_from_being_brought_in() {
    for means in [overlay(), &LayerMeans::Copy] {
        let place = project();
        let large = |path: &str| {
            let file = fs::File::create(place.root().join(path)).unwrap();
            file.set_len(40 << 20).unwrap();
        };
        large("rows.bin");
        let workspace = place.open();
        let before = workspace.snapshot(name(1)).unwrap();
        let layer = workspace.private_layer_by(&before, means).unwrap();
        let is_there = place.root().join("rows.bin").exists();
        run(
            &layer,
            "truncate -s 41M core.1; echo x >> rows.bin; echo more >> dir/b.txt; rm -r dir/deep",
        );
        let change = workspace.layer_change(&before, &layer).unwrap();
        assert_eq!(change.unkept, ["core.1", "rows.bin"], "{means:?}");
        assert_eq!(
            (change.measured.change.files, change.measured.change.lines),
            (Some(2), Some(2))
        );
        workspace.leave_out(&before, &layer).unwrap();
        run(&layer, "[ ! -e core.1 ] && [ ! -e dir/deep ] && grep -q more dir/b.txt");
        workspace.take_over(&before, &change.measured.after).unwrap();
        assert_eq!(fs::read_to_string(place.root().join("dir/b.txt")).unwrap(), "b\nmore\n");
        assert!(!place.root().join("core.1").exists() && !place.root().join("dir/deep").exists());
        let meta = fs::metadata(place.root().join("rows.bin")).unwrap();
        assert_eq!((meta.len(), is_there), (40 << 20, true), "{means:?}");
    }
}

/// **Invariant:** What is brought in runs as nobody but who starts it, unless the user had said so.
#[test]
fn the_right_to_run_as_the_owner_comes_in_with_no_change() {
    for means in [overlay(), &LayerMeans::Copy] {
        let place = project();
        let mode = |path: &str| {
            let mode = fs::metadata(place.root().join(path)).unwrap().permissions().mode();
            format!("{:o}", mode & 0o7777)
        };
        let own = place.root().join("own.sh");
        fs::write(&own, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o4755)).unwrap();
        let workspace = place.open();
        let before = workspace.snapshot(name(1)).unwrap();
        let layer = workspace.private_layer_by(&before, means).unwrap();
        run(
            &layer,
            "cp /bin/true tool && chmod 6755 tool run.sh && echo : >> own.sh && chmod 4755 own.sh",
        );
        let change = workspace.layer_change(&before, &layer).unwrap();
        workspace.take_over(&before, &change.measured.after).unwrap();
        assert_eq!([mode("tool"), mode("run.sh"), mode("own.sh")], ["755", "755", "4755"]);
    }
}

/// **Invariant:** Whom a file belongs to, it still belongs to after a change of it.
#[test]
fn a_file_stays_its_owners_and_what_is_new_belongs_where_it_lies() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = project();
    let whose = |path: &str| {
        let meta = fs::metadata(place.root().join(path)).unwrap();
        (meta.uid(), meta.gid())
    };
    let (ours, team) = ((4_321, 4_322), (4_321, 4_323));
    for path in ["a.txt", "dir", "dir/b.txt"] {
        chown(place.root().join(path), Some(ours.0), Some(ours.1)).unwrap();
    }
    chown(place.root().join("run.sh"), Some(team.0), Some(team.1)).unwrap();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    let layer = workspace.private_layer_by(&before, overlay()).unwrap();
    run(
        &layer,
        "for f in a.txt dir/b.txt run.sh; do echo : >> $f; done; mkdir dir/new; echo x > dir/new/c.txt",
    );
    let change = workspace.layer_change(&before, &layer).unwrap();
    let taken = workspace.take_over(&before, &change.measured.after).unwrap();
    assert_eq!([whose("a.txt"), whose("dir/b.txt"), whose("run.sh")], [ours, ours, team]);
    assert_eq!([whose("dir/new"), whose("dir/new/c.txt")], [ours, ours]);
    workspace.take_back(&taken.before, &taken.after).unwrap();
    assert_eq!([whose("a.txt"), whose("dir/b.txt"), whose("run.sh")], [ours, ours, team]);
}

#[test]
fn what_a_repository_inside_ignores_and_what_a_link_led_to_keep_nothing_from_being_told_apart() {
    for means in [overlay(), &LayerMeans::Copy] {
        let place = project();
        place.write("real/r.txt", "r\n");
        std::os::unix::fs::symlink("real", place.root().join("link")).unwrap();
        fs::create_dir(place.root().join("inner")).unwrap();
        place.git(&["init", "--quiet", "inner"]);
        place.write("inner/.gitignore", "*.gen\n");
        place.write("inner/a.txt", "a\n");
        // What is committed is a submodule to the project's repository.
        git_in(&place.root().join("inner"), &["add", "--all"]);
        let commit = ["-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "a"];
        git_in(&place.root().join("inner"), &commit);
        place.commit_all();
        let workspace = place.open();
        let before = workspace.snapshot(name(1)).unwrap();
        let layer = workspace.private_layer_by(&before, means).unwrap();
        run(
            &layer,
            "echo b >> inner/a.txt && echo x > inner/x.gen && echo x > x.log && \
             rm link && mkdir link && echo z > link/z.txt",
        );
        let change = workspace.layer_change(&before, &layer).unwrap();
        let told: Vec<_> = change.measured.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(told, ["inner/a.txt", "link", "link/z.txt"], "{means:?}");
        workspace.take_over(&before, &change.measured.after).unwrap();
        assert!(!place.root().join("x.log").exists(), "{means:?}");
        assert_eq!(fs::read_to_string(place.root().join("link/z.txt")).unwrap(), "z\n");
    }
}

/// **Invariant:** What the user types meanwhile stays.
#[test]
fn what_the_user_typed_meanwhile_stays_with_what_the_agent_did() {
    let place = project();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    let layer = workspace.private_layer_by(&before, overlay()).unwrap();
    run(&layer, "sed -i s/two/TWO/ a.txt && rm -r dir");
    place.write("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    place.write("dir/notes.txt", "mine\n");
    place.write("other.txt", "mine\n");
    let typed = place.picture();
    let change = workspace.layer_change(&before, &layer).unwrap();
    let taken = workspace.take_over(&before, &change.measured.after).unwrap();
    assert_eq!(taken.merged, ["a.txt"]);
    let read = |path: &str| fs::read_to_string(place.root().join(path)).unwrap();
    assert_eq!(read("a.txt"), "one\nTWO\nthree\nfour\nfive\nsix\nSEVEN\n");
    assert_eq!([read("dir/notes.txt"), read("other.txt")], ["mine\n", "mine\n"]);
    assert!(!place.root().join("dir/b.txt").exists());
    place.write("a.txt", "one\nTWO\nthree\nFOUR!\nfive\nsix\nSEVEN\n");
    workspace.take_back(&taken.before, &taken.after).unwrap();
    assert_eq!(read("a.txt"), "one\ntwo\nthree\nFOUR!\nfive\nsix\nSEVEN\n");
    place.write("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    assert_eq!(place.picture(), typed);
}

#[test]
fn where_both_changed_the_same_lines_nothing_is_taken_over_and_both_are_kept() {
    let place = project();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    let layer = workspace.private_layer_by(&before, overlay()).unwrap();
    run(&layer, "sed -i s/two/agent/ a.txt && echo x > fine.txt && rm dir/b.txt");
    place.write("a.txt", "one\nuser\nthree\nfour\nfive\nsix\nseven\n");
    place.write("dir/b.txt", "b\nuser\n");
    let typed = place.picture();
    let change = workspace.layer_change(&before, &layer).unwrap();
    let after = change.measured.after;
    let Err(TakeOverError::Conflict { paths }) = workspace.take_over(&before, &after) else {
        panic!("it conflicts");
    };
    assert_eq!(paths, ["a.txt", "dir/b.txt"]);
    assert_eq!(place.picture(), typed);
    let agents = workspace.content(&after, "a.txt").unwrap().unwrap();
    assert!(agents.starts_with(b"one\nagent\n"));
    // A person may want the agent's version all the same; the own one is kept then.
    let give = Give::Repair { left: &before, again: Again::Overwrite };
    let done = workspace.restore(&after, give).unwrap();
    let kept = workspace.load(done.kept.unwrap()).unwrap().unwrap();
    assert!(workspace.content(&kept, "a.txt").unwrap().unwrap().starts_with(b"one\nuser\n"));
}

/// **Invariant:** What runs in a layer reaches nothing else, and ends with Salve.
#[test]
fn the_rest_of_the_machine_is_out_of_reach() {
    if !is_overlay() {
        return;
    }
    let place = project();
    let elsewhere = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let open = elsewhere.path().join("state");
    fs::create_dir(&open).unwrap();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    let layer = workspace.private_layer_by(&before, overlay()).unwrap();
    let script = format!(
        "echo x > {0}/state/x || echo NOSTATE; echo x > {0}/y; \
         echo x > ~/salve-layer-test && echo WROTE; echo x > /etc/salve-layer-test && echo WROTE; \
         echo x > /tmp/salve-layer-test && echo x > /var/tmp/salve-layer-test || echo NOTMP; \
         kill -0 {1} && echo KILLED; echo; ls /proc | grep -c '^[0-9]*$'; \
         mount -o remount,rw / 2>&1 && echo MOUNTED; echo done",
        elsewhere.path().display(),
        std::process::id(),
    );
    let output = run_with(&layer, &script, vec![open.clone()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in ["NOSTATE", "WROTE", "NOTMP", "KILLED", "MOUNTED"] {
        assert!(!said.contains(word), "{word}: {output:?}");
    }
    assert!(said.contains("done"), "{output:?}");
    assert!(open.join("x").exists() && !elsewhere.path().join("y").exists());
    for path in ["/tmp/salve-layer-test", "/var/tmp/salve-layer-test", "/etc/salve-layer-test"] {
        assert!(!Path::new(path).exists(), "{path}");
    }
    let count = said.lines().find_map(|line| line.trim().parse::<u32>().ok()).unwrap();
    assert!(count <= 6, "it sees its own processes only: {said}");
}

/// **Invariant:** What runs in a held tree writes to it, to what is named and to nothing else.
#[test]
fn a_command_in_a_held_tree_writes_there_and_nowhere_else() {
    for means in [overlay(), &LayerMeans::Copy] {
        let around = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
        let (root, open) = (around.path().join("tree"), around.path().join("state"));
        [&root, &open].into_iter().for_each(|dir| fs::create_dir(dir).unwrap());
        fs::write(root.join("a.txt"), "one\n").unwrap();
        let tree = HeldTree::by(&root, means).unwrap();
        let script = "echo two >> a.txt && mkdir new && echo x > new/file && echo x > ../state/x || \
                      echo NOT; { echo x > ../beside; } 2> /dev/null; \
                      echo x > \"${TMPDIR:-/tmp}/salve-held-test\" || echo NOTMP";
        let argv = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
        let (dir, writable, sight) = (root.clone(), vec![open.clone()], LayerSight::Agent);
        let launch = tree.launch(&LayerCommand { argv, dir, writable, sight }).unwrap();
        let mut command = Command::new(&launch.argv[0]);
        command.args(&launch.argv[1..]).envs(launch.env).current_dir(launch.dir);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("NOT"), "{means:?}: {output:?}");
        assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "one\ntwo\n", "{means:?}");
        assert!(root.join("new/file").exists() && open.join("x").exists(), "{means:?}");
        assert!(!around.path().join("beside").exists(), "{means:?}");
        assert!(!Path::new("/tmp/salve-held-test").exists(), "{means:?}");
    }
}

#[test]
fn nothing_in_a_layer_outlives_the_process_that_salve_started() {
    if !is_overlay() {
        return;
    }
    let place = project();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    let layer = workspace.private_layer_by(&before, overlay()).unwrap();
    let script = "setsid sh -c 'sleep 600; true' & setsid sleep 600 & echo started; sleep 600";
    let argv = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
    let command = LayerCommand {
        argv,
        dir: layer.root.clone(),
        writable: Vec::new(),
        sight: LayerSight::Agent,
    };
    let LayerLaunch { argv, dir, env } = layer.launch(&command).unwrap();
    let mut started = Command::new(&argv[0]);
    started.args(&argv[1..]).envs(env).current_dir(dir).stdout(std::process::Stdio::piped());
    let mut started = started.spawn().unwrap();
    let outer = started.id();
    let mut output = io::BufReader::new(started.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("started") {
        line.clear();
        assert_ne!(io::BufRead::read_line(&mut output, &mut line).unwrap(), 0);
    }
    let inside = descendants(outer);
    assert!(inside.len() >= 3, "{inside:?}");
    started.kill().unwrap();
    started.wait().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let lives = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while inside.iter().any(lives) {
        assert!(std::time::Instant::now() < until, "{inside:?}");
        std::thread::yield_now();
    }
}

/// Returns the processes that come from one.
fn descendants(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |pid: u32| crate::process::tree::stat(pid).map(|stat| stat.parent);
    let comes = |pid: &u32| {
        let mut at = *pid;
        while let Some(above) = parent(at).filter(|above| *above > 1) {
            if above == of {
                return true;
            }
            at = above;
        }
        false
    };
    pids.filter(comes).collect()
}

#[test]
fn where_no_overlay_can_be_made_a_copy_has_to_do() {
    let there = tempfile::tempdir().unwrap();
    let not_there = there.path().join("file");
    fs::write(&not_there, "").unwrap();
    let means = LayerMeans::among(&[not_there.join("x")]);
    assert!(!matches!(means, LayerMeans::Overlay { .. }));
    let place = project();
    let workspace = place.open();
    let before = workspace.snapshot(name(1)).unwrap();
    let refused = workspace.private_layer_by(&before, &LayerMeans::None);
    assert!(matches!(refused, Err(LayerError::Unheld)));
    let layer = workspace.private_layer_by(&before, &LayerMeans::Copy).unwrap();
    let real = place.root().join("dir/b.txt");
    let script = format!("echo x >> dir/b.txt; echo y >> '{}'; cat dir/b.txt", real.display());
    let said = run(&layer, &script);
    assert!(said.contains("b\nx\n"), "{said}");
    assert_eq!(fs::read_to_string(&real).unwrap(), "b\n");
}

/// One thing that is done to a tree.
#[derive(Clone, Debug)]
enum Deed {
    Write(usize, Vec<u8>),
    Remove(usize),
    Mode(usize),
    Link(usize),
    RemoveDir(usize),
}

/// Paths of which some are sealed, some are directories of others, and some are ignored.
const PATHS: [&str; 14] = [
    "a",
    "b",
    "d/a",
    "d/b",
    "d/e/a",
    "d/e/f/a",
    "salve.toml",
    ".mcp.json",
    "d/.claude/x",
    ".git/hooks/pre-commit",
    ".vscode/tasks.json",
    ".vscode/words",
    ".env",
    "d/salve.json",
];

fn deed() -> impl Strategy<Value = Deed> {
    let path = 0..PATHS.len();
    prop_oneof![
        4 => (path.clone(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(path, bytes)| Deed::Write(path, bytes)),
        2 => path.clone().prop_map(Deed::Remove),
        1 => path.clone().prop_map(Deed::Mode),
        1 => path.clone().prop_map(Deed::Link),
        1 => path.prop_map(Deed::RemoveDir),
    ]
}

/// Says a deed in the shell's words; each may fail, as those of an agent may.
fn script(deed: &Deed) -> String {
    match deed {
        Deed::Write(path, bytes) => {
            let path = PATHS[*path];
            // An ignored file with such a byte is a program's data, which is left out.
            let text = bytes.iter().map(|byte| if path == ".env" { *byte | 1 } else { *byte });
            let octal: String = text.map(|byte| format!("\\{byte:03o}")).collect();
            format!(
                "mkdir -p \"$(dirname {path})\" && [ ! -d {path} ] && rm -f {path} && printf '{octal}' > {path}"
            )
        }
        Deed::Remove(path) => format!("rm -f {}", PATHS[*path]),
        Deed::Mode(path) => format!("[ -f {0} ] && [ ! -L {0} ] && chmod 755 {0}", PATHS[*path]),
        Deed::Link(path) => format!("[ ! -d {0} ] && ln -sfn target {0}", PATHS[*path]),
        Deed::RemoveDir(path) => {
            let top = PATHS[*path].split('/').next().unwrap_or("none");
            format!("[ {top} != .git ] && rm -rf {top}")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// What reaches the tree is exactly what an agent did but for the sealed paths, which stay.
    ///
    /// **Invariant:** Exactly the agent's change without sealed paths reaches the tree, and goes
    /// again.
    #[test]
    fn exactly_the_change_without_sealed_paths_reaches_the_tree(
        first in prop::collection::vec(deed(), 0..12),
        second in prop::collection::vec(deed(), 1..12),
    ) {
        let (place, twin) = (Place::new(), Place::new());
        let shell = |dir: &Path, deeds: &[Deed]| {
            let script: Vec<String> = deeds.iter().map(script).collect();
            let script = script.join("\n");
            Command::new("/bin/sh").args(["-c", &script]).current_dir(dir).output().unwrap();
        };
        let ignore = ".env\n";
        for place in [&place, &twin] {
            place.write(".gitignore", ignore);
            place.write("keep/x", "x");
            shell(&place.root(), &first);
        }
        let old = place.picture();
        let workspace = place.open();
        let before = workspace.snapshot(name(1)).unwrap();
        let layer = workspace.private_layer_by(&before, overlay()).unwrap();
        let all: Vec<String> = second.iter().map(script).collect();
        run_with(&layer, &all.join("\n"), Vec::new());
        prop_assert_eq!(place.picture(), old.clone());
        shell(&twin.root(), &second);
        let change = workspace.layer_change(&before, &layer).unwrap();
        let taken = workspace.take_over(&before, &change.measured.after).unwrap();
        let sealed = |path: &Path| {
            use std::os::unix::ffi::OsStrExt as _;
            salve_core::sealed_path::SealedPath::of(path.as_os_str().as_bytes()).is_some()
        };
        // Directories come and go with what is in them; a sealed file keeps its own.
        let files = |picture: &std::collections::BTreeMap<PathBuf, String>, want: bool| {
            let files = picture.iter().filter(|(path, what)| *what != "directory" && sealed(path) == want);
            files.map(|(path, what)| (path.clone(), what.clone())).collect::<Vec<_>>()
        };
        // What nobody but the user has stays, though the agent threw it away.
        let mut wanted = twin.picture();
        for path in change.discarded.iter().map(PathBuf::from) {
            wanted.insert(path.clone(), old[&path].clone());
        }
        prop_assert_eq!(files(&place.picture(), false), files(&wanted, false));
        prop_assert_eq!(files(&place.picture(), true), files(&old, true));
        workspace.take_back(&taken.before, &taken.after).unwrap();
        prop_assert_eq!(files(&place.picture(), false), files(&old, false));
    }
}
