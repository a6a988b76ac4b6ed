//! Who is told of a loop changes with its settings, while it runs, and never by a role's own hand.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::loops_reload::{await_run, gated_with, let_go};
use crate::notify::Target;

/// Returns what an implementer does that does the work in this iteration, and something before.
fn work_in(iteration: u32) -> String {
    format!(
        "if [ $SALVE_ITERATION = {iteration} ]; then printf 5 > sum.txt; \
         else printf 0$SALVE_ITERATION > sum.txt; fi"
    )
}

/// Returns settings that tell `target` of each change of the settings, signed with `secret`.
fn hook(target: &Target, secret: &[u8]) -> String {
    let (url, secret) = (&target.url, STANDARD.encode(secret));
    format!(
        "[webhooks]\nallow_private = true\non_config_change = \"{url}\"\n\
         secrets = [\"whsec_{secret}\"]\n"
    )
}

#[test]
fn targets_and_secrets_that_change_while_a_loop_runs_hold_from_the_next_iteration_on() {
    let (first, second) = (Target::well(), Target::well());
    let keys = [b"the first receiver's own secret.", b"another receiver's other secret."];
    let (rounds, mut salve) = gated_with(&work_in(4));
    let settings = [
        hook(&first, keys[0]),
        hook(&second, keys[1]),
        format!("{}[loop]\nstuck_after = 2\n", hook(&second, keys[1])),
    ];
    for (run, text) in (1..).zip(settings) {
        await_run(&rounds, run);
        rounds.project.write("salve.toml", text);
        let_go(&rounds, run);
    }
    await_run(&rounds, 4);
    let_go(&rounds, 4);
    assert_eq!(salve.wait().unwrap().code(), Some(0), "{}", rounds.read("../said"));
    for (target, key, change) in [
        // Whoever was told until now hears that it is somebody else from now on.
        (&first, keys[0], "webhooks.on_config_change"),
        (&second, keys[1], "loop.stuck_after"),
    ] {
        let [post] = target.posts().try_into().unwrap();
        assert_eq!(post.json()["type"], "salve.config_change");
        assert!(post.body.contains(change), "{change}: {}", post.body);
        assert!(post.is_signed_with(key), "{change}");
        assert!(!post.body.contains(&STANDARD.encode(keys[1])), "no secret: {}", post.body);
    }
}

/// **Invariant:** A target that a role adds is told nothing.
#[test]
fn a_target_that_a_role_adds_is_no_part_of_its_change_and_is_told_nothing() {
    let target = Target::well();
    let added = hook(&target, b"a receiver's own 32 byte secret.");
    let own = format!("[ $SALVE_ITERATION = 1 ] && cat > salve.toml <<'END'\n{added}END\n");
    let (rounds, mut salve) = gated_with(&format!("{own}{}", work_in(2)));
    await_run(&rounds, 1);
    let_go(&rounds, 1);
    await_run(&rounds, 2);
    assert!(!rounds.project.dir().join("salve.toml").exists(), "it stayed in the role's layer");
    let_go(&rounds, 2);
    assert_eq!(salve.wait().unwrap().code(), Some(0), "{}", rounds.read("../said"));
    assert!(rounds.read("../said").contains("the agent also wanted to change salve.toml"));
    assert_eq!(target.posts().len(), 0, "{:?}", target.posts());
}
