//! `salve demo`: each scene comes out as it says, on a machine with git and a shell.

use serde_json::Value;

use crate::support::Project;

/// Plays scenes and returns what came of each.
#[track_caller]
fn play(args: &[&str]) -> Vec<Value> {
    let project = Project::new();
    let output = project.run(&[&["demo", "--fast", "--json"], args].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let facts = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    facts.filter(|fact| fact["came_out"].is_boolean()).collect()
}

#[test]
fn every_scene_that_is_listed_comes_out_as_it_says() {
    let project = Project::new();
    let list = String::from_utf8(project.run(&["demo", "--list"]).stdout).unwrap();
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"cheating-agent") && names.len() == 8, "{list}");
    let told = play(&[]);
    let played: Vec<&str> = told.iter().filter_map(|scene| scene["name"].as_str()).collect();
    assert_eq!(played, names);
    for scene in &told {
        assert_eq!(scene["came_out"], true, "{scene}");
        assert_eq!(scene["incidents"], 1, "{scene}");
    }
    for scene in ["hang", "crash"] {
        let took = told.iter().find(|told| told["name"] == scene).unwrap()["took_ms"].as_u64();
        assert!(took.is_some_and(|took| took > 0), "{scene}: {took:?}");
    }
    let healed: Vec<_> = told.iter().filter(|scene| scene["healed"] == 1).collect();
    assert_eq!(healed.len(), names.len() - 1, "all but the agent that cheats");
}

#[test]
fn one_scene_is_played_by_its_name_and_an_unknown_one_is_refused() {
    let told = play(&["red-test"]);
    assert_eq!((told.len(), &told[0]["healed"]), (1, &Value::from(1)));
    let refused = Project::new().run(&["demo", "no-such-scene"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_end_says_what_came_of_each_scene_what_it_cost_and_what_to_type() {
    let project = Project::new();
    for scene in ["build-output", "expired-token", "wrecked-job"] {
        let output = project.run(&["demo", "--fast", scene]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let story = said.clone() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{story}");
        let line = said.lines().find(|line| line.trim_start().starts_with(scene)).unwrap();
        assert!(line.contains(" s  heal-") && line.ends_with("healed"), "{line}");
        for words in ["1 incident, 1 healed; no model was asked", "salve init", "salve serve"] {
            assert!(said.contains(words), "{words}: {said}");
        }
        let how = match scene {
            "build-output" => "sh build.sh (auto_approve[0])",
            "expired-token" => "ran `sh orders.sh login` and called again: healed",
            _ => "attempt 3, in a fresh workspace",
        };
        assert!(story.contains(how), "{how}: {story}");
    }
}
