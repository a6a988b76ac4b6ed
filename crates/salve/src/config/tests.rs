use proptest::prelude::*;
use salve_core::fingerprint::Hints;
use salve_core::gate::RawPolicy;
use serde_json::json;

use super::tree::SettingNode;
use super::*;

/// Reads `text` as a project's file and compares what is wrong with it.
#[track_caller]
fn check_toml(text: &str, want: &[&str]) {
    let got = parse_toml(text).err().unwrap_or_default();
    assert_eq!(got.iter().map(ConfigProblem::to_string).collect::<Vec<_>>(), want, "{text}");
}

/// The same for JSON.
#[track_caller]
fn check_json(text: &str, want: &[&str]) {
    let got = parse_json(text).err().unwrap_or_default();
    assert_eq!(got.iter().map(ConfigProblem::to_string).collect::<Vec<_>>(), want, "{text}");
}

/// Loads `text` as a project's file and compares what is wrong with it as a whole.
#[track_caller]
pub(super) fn check_file(text: &str, want: &[&str]) {
    let problems = load_text("salve.toml", text).map(drop).map_err(|error| error.problems());
    let got: Vec<_> =
        problems.err().into_iter().flatten().map(|problem| problem.to_string()).collect();
    assert_eq!(got, want, "{text}");
}

fn load_text(name: &str, text: &str) -> Result<Config, LoadError> {
    load_file(std::path::Path::new(name), text.to_owned())
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    check_toml("[recovry]", &["salve.toml:1:2: unknown key `recovry`; did you mean `recovery`?"]);
    check_toml(
        "# é\r\n[recovery]\r\n  cooldown = 5",
        &["salve.toml:3:3: unknown key `cooldown` in `recovery`; did you mean `cooldown_seconds`?"],
    );
    check_toml(
        "recovery.max_loc = 5",
        &["salve.toml:1:10: unknown key `max_loc` in `recovery`; did you mean `repair.max_loc`?"],
    );
    check_toml(
        "[playbook]\n\"\\u001b[31m\" = 1",
        &[r"salve.toml:2:1: unknown key `\u{1b}[31m` in `playbook`; known here: auto"],
    );
    check_json(
        "{\n  \"agent\": {\"repare\": true}}",
        &["salve.json:2:13: unknown key `repare` in `agent`; did you mean `repair`?"],
    );
}

#[test]
fn wrong_values_say_what_is_expected() {
    check_toml(
        "[repair]\nmax_attempts = 0\nmax_files = -1\nmax_loc = \"many\"",
        &[
            "salve.toml:2:16: repair.max_attempts: expected an integer from 1 to 100",
            "salve.toml:3:13: repair.max_files: expected an integer from 0 to 100000",
            "salve.toml:4:11: repair.max_loc: expected an integer from 0 to 10000000, found text",
        ],
    );
    check_json(
        r#"{"recovery": {"enabled": 1, "auto_approve": ["a", null], "on_unknown": "Allow"}}"#,
        &[
            "salve.json:1:26: recovery.enabled: expected true or false, found an integer",
            "salve.json:1:51: recovery.auto_approve.1: expected text, found null",
            "salve.json:1:72: recovery.on_unknown: expected one of \"escalate\", \"deny\", \"allow\"; \
             did you mean `allow`?",
        ],
    );
    check_toml("recovery = 1", &["salve.toml:1:12: recovery: expected a table, found an integer"]);
    check_toml(
        "repair.cooldown_ms = 1.5",
        &["salve.toml:1:22: repair.cooldown_ms: expected an integer from 0 to 604800000, \
           found a fraction"],
    );
    check_toml("version = 2", &["salve.toml:1:11: version: expected the integer 1"]);
}

#[test]
fn syntax_errors_and_duplicates_have_places() {
    let first = |found: Result<SettingNode, Vec<ConfigProblem>>| found.unwrap_err()[0].to_string();
    assert!(first(parse_toml("a = \n")).starts_with("salve.toml:1:5: "));
    assert!(
        first(parse_toml("[agent]\nrepair = true\nrepair = false")).contains(":3:1: duplicate")
    );
    assert!(first(parse_json("{\"agent\": {},}")).starts_with("salve.json:1:13: "));
    assert!(first(parse_json("{} // no")).starts_with("salve.json:1:4: "));
    assert!(first(parse_json("")).ends_with("expected a JSON object, found nothing"));
    assert!(first(parse_json("[]")).ends_with("expected a JSON object, found a list"));
    check_json("{\"agent\": {},\n \"agent\": {}}", &["salve.json:2:2: duplicate key `agent`"]);
    check_json(
        r#"{"repair": {"max_loc": 99999999999999999999}}"#,
        &["salve.json:1:24: this number is out of range"],
    );
    check_toml("\u{feff}[agent]\r\nrepair = true\r\n", &[]);
}

#[test]
fn deep_and_long_files_are_refused_without_harm() {
    let deep = 100_000;
    assert!(parse_toml(&format!("a = {}1{}", "[".repeat(deep), "]".repeat(deep))).is_err());
    assert!(parse_json(&format!("{}1{}", "[".repeat(deep), "]".repeat(deep))).is_err());
    assert!(parse_json(&"{\"a\":".repeat(deep)).is_err());
    let many: String = (0..50_000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(parse_toml(&many).unwrap_err().len(), 20);
    let one_line = format!("{{\"recovery\": {{\"auto_approve\": [{}1]}}}}", "1,".repeat(200_000));
    assert_eq!(parse_json(&one_line).unwrap_err().len(), 20);
}

#[test]
fn sections_written_for_the_specs_paste_in_unchanged() {
    let config = load_text(
        "salve.json",
        r#"{
            "$schema": "salve.schema.json",
            "recovery": {
                "enabled": true,
                "auto_approve": ["bun install", "rm -rf dist && bun run build"],
                "require_human": ["rm -rf *", "git push"],
                "max_auto_recoveries_per_run": 3,
                "cooldown_seconds": 60,
                "on_unknown": "escalate"
            },
            "webhooks": { "on_escalation": "https://hooks.example.com/x" },
            "auto_heal": {
                "enabled": true,
                "max_retries": 1,
                "vpn_script": "~/bin/vpn",
                "clusters": { "stage": "~/.kube/s", "prod": "~/.kube/p" }
            }
        }"#,
    );
    let settings = config.unwrap().settings;
    assert_eq!(settings.recovery.require_human, ["rm -rf *", "git push"]);
    assert_eq!(settings.auto_heal.clusters["prod"], "~/.kube/p");
}

#[test]
fn the_defaults_are_the_specs_and_cover_every_setting() {
    let defaults = defaults().unwrap();
    let config = load(&Sources::default()).unwrap();
    assert_eq!(config.warnings(), []);
    let optional = |name: &str| {
        let without = [
            "url",
            "path",
            "status",
            "body",
            "runtime",
            "command",
            "model",
            "vpn_script",
            "tests",
            "statsd",
            "quiet_hours",
            "credentials",
            "tls_ca",
            "monitor",
        ];
        name.starts_with("webhooks.on_") || without.contains(&name.rsplit('.').next().unwrap())
    };
    for key in keys() {
        assert_eq!(defaults.get(key.name).is_none(), optional(key.name), "{}", key.name);
    }
    let repair = config.settings.repair;
    assert_eq!(repair.max_attempts, 3);
    assert_eq!(repair.cooldown.as_secs(), 600);
    assert_eq!((repair.max_files, repair.max_loc), (8, 300));
    assert_eq!(config.settings.agent.engage_timeout.as_secs(), 30);
    assert_eq!(config.settings.recovery.require_human, ["*"]);
    assert_eq!(config.settings.playbook.auto, PlaybookAuto::Safe);
}

#[test]
fn the_gate_and_the_shipped_file_have_the_same_defaults() {
    let config = load(&Sources::default()).unwrap();
    assert_eq!(RawPolicy::from(&config.settings.recovery), RawPolicy::default());
}

#[test]
fn the_gate_judges_the_recovery_section_and_the_place_is_told() {
    let error = load_text("salve.toml", "[recovery]\nauto_approve = [\n  \"npm ci\",\n  \" x\"\n]");
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("salve.toml:4:3: recovery.auto_approve.1: has white space"),
        "{error}"
    );
    let text =
        "[recovery]\nauto_approve = [\"git push\"]\nrequire_human = [\n\"git push\", \"rm *\"]";
    let config = load_text("salve.toml", text).unwrap();
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 1);
    let warning = warnings[0].to_string();
    assert!(warning.starts_with("salve.toml:2:17: recovery.auto_approve.0: "), "{warning}");
    let many: Vec<_> = (0..2000).map(|n| format!("cmd-{n}")).collect();
    let text = json!({"recovery": {"auto_approve": many, "require_human": many}}).to_string();
    let warnings = load_text("salve.json", &text).unwrap().warnings();
    assert!(warnings[0].message.contains("too many rules"), "{warnings:?}");
}

#[test]
fn every_setting_is_described_in_the_shipped_file_as_in_the_schema() {
    for key in keys() {
        let (section, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        let text = match section {
            "" => DEFAULTS,
            _ if key.schema["type"] == "object" => DEFAULTS,
            section => DEFAULTS.split_once(&format!("\n[{section}]\n")).unwrap().1,
        };
        let lines: Vec<_> = text.lines().collect();
        let heads = [format!("{name} = "), format!("# {name} = "), format!("[{}]", key.name)];
        let at = lines.iter().position(|line| heads.iter().any(|head| line.starts_with(head)));
        let at = at.unwrap_or_else(|| panic!("{} is not in defaults.toml", key.name));
        let above = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("# ") && !line.contains(" = "));
        let comment: Vec<_> = above.map(|line| &line[2..]).collect();
        let comment = comment.into_iter().rev().collect::<Vec<_>>().join(" ");
        let about = key.schema["description"].as_str().unwrap();
        let about = about.split(". \"").next().unwrap().trim_end_matches('.');
        assert!(comment.starts_with(about), "{}: `{comment}` ≠ `{about}`", key.name);
        if let Some(variable) = key.schema.get("x-env").and_then(|v| v.as_str()) {
            assert!(comment.contains(&format!("({variable}")), "{}: {variable}", key.name);
        }
    }
}

#[test]
fn stronger_layers_win_and_each_value_knows_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let user = dir.path().join("config.toml");
    std::fs::write(&user, "[repair]\nmax_loc = 1\nmax_files = 1\nmax_attempts = 1\n").unwrap();
    let text = "repair.max_loc = 2\nrepair.max_files = 2\nrepair.health_retries = 2";
    std::fs::write(dir.path().join("salve.toml"), text).unwrap();
    let sources = Sources {
        project: Some(dir.path().canonicalize().unwrap()),
        user: Some(user),
        environment: [("REPAIR_MAX_LOC", "3"), ("SALVE_REPAIR_HEALTH_RETRIES", "3")]
            .into_iter()
            .collect(),
        flags: vec!["repair.health_retries=4".into()],
    };
    let config = load(&sources).unwrap();
    let from = |key| config.tree.get(key).unwrap().origin.layer();
    let repair = &config.settings.repair;
    assert_eq!((repair.max_attempts, from("repair.max_attempts")), (1, "user"));
    assert_eq!((repair.max_files, from("repair.max_files")), (2, "project"));
    assert_eq!((repair.max_loc, from("repair.max_loc")), (3, "env"));
    assert_eq!((repair.health_retries, from("repair.health_retries")), (4, "flag"));
    assert_eq!(from("repair.cooldown_ms"), "default");
}

#[test]
fn a_bad_variable_or_flag_is_named() {
    let wrong = |variable, value: &str| {
        let environment = [(variable, value)].into_iter().collect();
        load(&Sources { environment, ..Sources::default() }).unwrap_err().to_string()
    };
    assert_eq!(
        wrong("REPAIR_MAX_ATTEMPTS", "lots"),
        "REPAIR_MAX_ATTEMPTS: repair.max_attempts: expected an integer from 1 to 100"
    );
    assert_eq!(
        wrong("REPAIR_MAX_ATTEMPTS", "101"),
        "REPAIR_MAX_ATTEMPTS: repair.max_attempts: expected an integer from 1 to 100"
    );
    assert_eq!(
        wrong("AGENT_REPAIR", "yes"),
        "AGENT_REPAIR: agent.repair: expected 1, 0, true or false"
    );
    assert_eq!(
        wrong("SALVE_RECOVERY_AUTO_APPROVE", "npm ci"),
        "SALVE_RECOVERY_AUTO_APPROVE: recovery.auto_approve: \
         expected a list of text such as [\"one\", \"two\"]"
    );
    let flags = vec!["recovery.cooldwn_seconds=1".into()];
    let error = load(&Sources { flags, ..Sources::default() }).unwrap_err().to_string();
    assert!(error.contains("did you mean `recovery.cooldown_seconds`?"), "{error}");
}

#[test]
fn the_specs_name_and_our_own_agree_and_ours_wins() {
    let of = |pairs: &[(&str, &str)]| {
        let environment = pairs.iter().copied().collect();
        load(&Sources { environment, ..Sources::default() }).unwrap()
    };
    assert!(of(&[("AGENT_REPAIR", "1")]).settings.agent.repair);
    assert!(!of(&[("AGENT_REPAIR", "")]).settings.agent.repair);
    assert!(!of(&[("AGENT_REPAIR", "1"), ("SALVE_AGENT_REPAIR", "0")]).settings.agent.repair);
    let odd = of(&[("SALVE_RECOVERY_COOLDOWN", "1"), ("SALVE_PROJECT", "x"), ("SALVE_AGENT", "1")]);
    assert_eq!(
        odd.warnings().iter().map(ConfigProblem::to_string).collect::<Vec<_>>(),
        ["SALVE_RECOVERY_COOLDOWN: this variable sets nothing; \
          did you mean SALVE_RECOVERY_COOLDOWN_SECONDS?"]
    );
}

#[test]
fn what_salve_sets_for_others_is_no_misspelt_setting() {
    let names = ["KEEPER", "LOOP", "LOOP_DIR", "ROLE", "ITERATION", "RUN", "SERVER", "USER"];
    let environment = names.iter().map(|name| (format!("SALVE_{name}"), "1")).collect();
    let config = load(&Sources { environment, ..Sources::default() }).unwrap();
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
}

#[test]
fn names_of_variables_are_unique() {
    let mut all: Vec<_> = keys().flat_map(SettingKey::variables).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn a_webhook_needs_a_web_address() {
    for bad in ["ftp://x", "https://?", "hooks.example.com", "https://a b", "https:///x"] {
        let text = format!("webhooks.on_escalation = \"{bad}\"");
        let error = load_text("salve.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with("salve.toml:1:26: webhooks.on_escalation: expected"), "{error}");
        assert!(!error.contains(bad), "a value may be a secret: {error}");
    }
}

#[test]
fn quiet_hours_and_the_pages_address_are_checked() {
    for (key, bad) in [("notify.quiet_hours", "22-7"), ("page.url", "https://a.example/b")] {
        let error = load_text("salve.toml", &format!("{key} = \"{bad}\"")).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("expected"), "{error}");
    }
    for good in ["ntfy+https://ntfy.example/salve", "https://ntfy.sh/salve"] {
        load_text("salve.toml", &format!("webhooks.on_escalation = \"{good}\"")).unwrap();
    }
}

#[test]
fn the_schema_uses_only_plain_keywords_and_gives_defaults() {
    let schema = with_defaults(&defaults().unwrap().value.to_json());
    let text = schema.to_string();
    for keyword in ["$ref", "oneOf", "anyOf", "const", "format\":", "null"] {
        assert!(!text.contains(keyword), "{keyword}");
    }
    assert_eq!(schema["properties"]["recovery"]["properties"]["cooldown_seconds"]["default"], 60);
    let choice = &schema["properties"]["recovery"]["properties"]["on_unknown"];
    assert_eq!(choice["enum"], json!(["escalate", "deny", "allow"]));
}

#[test]
fn own_failures_are_recognised_and_wrong_rows_are_named() {
    let row = "[[fingerprint.anchors]]\nid = \"shop.stock\"\nclass = \"network\"\n\
        shapes = [\"stock service {name:word} does not answer\"]\nidentify = [\"name\"]\n";
    let good = format!(
        "{row}examples = [{{ text = \"stock service eu-1 does not answer\", holes = [\"eu-1\"] }}]"
    );
    let config = load_text("salve.toml", &good).unwrap();
    let text = "stock service eu-1 does not answer";
    let seen = config.fingerprint_rules().fingerprint(text, &Hints::default());
    assert_eq!(seen.identity.as_deref(), Some("shop.stock(\"eu-1\")"));

    let bad = format!("\n{row}examples = [{{ text = \"all is well\" }}]");
    let error = load_text("salve.toml", &bad).unwrap_err().to_string();
    assert!(
        error.starts_with("salve.toml:2:1: fingerprint.anchors.0: anchor `shop.stock`"),
        "{error}"
    );
    check_toml(
        "[[fingerprint.anchors]]\nid = \"a\"\nclass = \"netwrk\"\n[[fingerprint.classes]]\nwight = 1",
        &[
            "salve.toml:1:1: fingerprint.anchors.0: `shapes` is missing",
            "salve.toml:3:9: fingerprint.anchors.0.class: expected one of the 27 words in the schema; did you mean `network`?",
            "salve.toml:4:1: fingerprint.classes.0: `name` is missing",
            "salve.toml:4:1: fingerprint.classes.0: `class` is missing",
            "salve.toml:4:1: fingerprint.classes.0: `any` is missing",
            "salve.toml:5:1: unknown key `wight` in `fingerprint.classes.0`; known here: also, any, class, counter, examples, name, never",
        ],
    );
}

#[test]
fn wrong_patterns_of_secrets_are_named() {
    let text = "scrub.patterns = [\n{ kind = \"badge\", regex = \"b([0-9]+)\" },\n\
        { kind = \"x\", regex = \"(\" },\n{ kind = \"No Kind\", regex = \"x\" }]";
    let problems = load_text("salve.toml", text).unwrap_err().problems();
    let places: Vec<_> = problems.iter().map(|p| p.origin.as_ref().unwrap().to_string()).collect();
    assert_eq!(places, ["salve.toml:3:1", "salve.toml:4:1"], "{problems:?}");
}

#[test]
fn the_rows_editors_know_are_the_rows_the_rules_take() {
    let rows = |key: &str| {
        let schema = &keys().find(|known| known.name == key).unwrap().schema["items"];
        let sample = |(name, about): (&String, &serde_json::Value)| {
            let value = match (about["type"].as_str().unwrap(), about.get("enum")) {
                (_, Some(choices)) => choices[0].clone(),
                ("string", None) => json!("x"),
                ("integer", None) => json!(1),
                ("boolean", None) => json!(true),
                (_, None) => json!([]),
            };
            (name.clone(), value)
        };
        let fields = schema["properties"].as_object().unwrap().iter().map(sample);
        serde_json::Value::Object(fields.collect())
    };
    use salve_core::fingerprint::{AnchorRow, ClassRow};
    serde_json::from_value::<AnchorRow>(rows("fingerprint.anchors")).unwrap();
    serde_json::from_value::<ClassRow>(rows("fingerprint.classes")).unwrap();
}

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("\\PC{0,12}", 0..4)
}

proptest! {
    #[test]
    fn toml_json_and_environment_say_the_same(
        approve in words(), seconds in 0..604_800u64, on in any::<bool>(),
    ) {
        let json = json!({
            "recovery": {"require_human": approve, "cooldown_seconds": seconds, "enabled": on}
        });
        let toml = toml::to_string(&json).unwrap();
        let list = toml::Value::try_from(&approve).unwrap().to_string();
        let environment = [
            ("SALVE_RECOVERY_REQUIRE_HUMAN", list),
            ("SALVE_RECOVERY_COOLDOWN_SECONDS", seconds.to_string()),
            ("SALVE_RECOVERY_ENABLED", on.to_string()),
        ];
        let environment = environment.into_iter().collect();
        let of_json = load_text("salve.json", &json.to_string());
        let of_toml = load_text("salve.toml", &toml);
        let of_env = load(&Sources { environment, ..Sources::default() });
        match (of_json, of_toml, of_env) {
            (Ok(json), Ok(toml), Ok(env)) => {
                prop_assert_eq!(&json.settings, &toml.settings);
                prop_assert_eq!(json.settings, env.settings);
            }
            (Err(_), Err(_), Err(_)) => {}
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "\\PC{0,200}") {
        let _ = parse_toml(&text);
        let _ = parse_json(&text);
    }

    #[test]
    fn hostile_mixtures_of_our_own_words_do_not_panic(
        parts in prop::collection::vec(prop::sample::select(vec![
            "[", "]", "{", "}", "\"", "=", ":", ",", "\n", "recovery", "agent", "repair", ".", "1",
            "-", "e9", "true", "\\u", "\u{feff}", "é", "'''", "\"\"\"", "#", "null", " ",
        ]), 0..40)
    ) {
        let text = parts.concat();
        let _ = parse_toml(&text);
        let _ = parse_json(&text);
    }
}

/// **Invariant:** Every setting says whether it bears on what runs unattended.
#[test]
fn every_setting_says_whether_it_bears_on_what_runs_unattended() {
    let known: Vec<_> = keys().map(|key| key.name).collect();
    let judged: Vec<_> = salve_core::widen::BEARINGS.iter().map(|(name, _)| *name).collect();
    assert_eq!(known, judged, "a new setting needs its row in salve_core::widen::BEARINGS");
}
