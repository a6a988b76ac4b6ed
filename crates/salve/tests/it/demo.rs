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
    assert!(names.contains(&"cheating-agent") && names.len() >= 5, "{list}");
    let told = play(&[]);
    let played: Vec<&str> = told.iter().filter_map(|scene| scene["name"].as_str()).collect();
    assert_eq!(played, names);
    for scene in &told {
        assert_eq!(scene["came_out"], true, "{scene}");
        assert_eq!(scene["incidents"], 1, "{scene}");
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
