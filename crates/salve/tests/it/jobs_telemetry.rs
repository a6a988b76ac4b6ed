//! Figures and traces of every subject: by StatsD, for Prometheus, and by OTLP over HTTP.

use std::net::TcpListener;
use std::time::Instant;

use serde_json::Value;

use crate::heal::Ward;
use crate::jobs::Works;
use crate::notify::{Post, Target};
use crate::support::{LONG, wait_for};

/// Returns the bodies that a collector got at a path, with what they hold in lists of `name`s.
fn bodies(posts: &[Post], holds: &str) -> Vec<Value> {
    let all = posts.iter().map(|post| serde_json::from_str::<Value>(&post.body).unwrap());
    all.filter(|body| body.get(holds).is_some()).collect()
}

fn names(bodies: &[Value], pointer: &str) -> Vec<String> {
    let lists = bodies.iter().filter_map(|body| body.pointer(pointer)?.as_array().cloned());
    lists.flatten().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

const METRICS: &str = "/resourceMetrics/0/scopeMetrics/0/metrics";
const SPANS: &str = "/resourceSpans/0/scopeSpans/0/spans";

#[test]
fn a_jobs_figures_and_spans_reach_a_collector() {
    let works = Works::new();
    let collector = Target::well();
    let step = "test -e $OUT/second || { touch $OUT/second; exit 1; }";
    let mut salve = works.command(&["run", "--step", step, "--step", "true"]);
    salve.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    salve.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b").env("OTEL_SERVICE_NAME", "works");
    assert_eq!(salve.output().unwrap().status.code(), Some(0));
    wait_for("both bodies", || collector.posts().len() >= 2);
    let posts = collector.posts();
    assert!(posts.iter().all(|post| post.header("x-key") == "a b"), "{posts:?}");
    let metrics = bodies(&posts, "resourceMetrics");
    let prefix = "moonmind.spec_workflow.self_heal";
    let told = names(&metrics, METRICS);
    for name in [
        "task.self_heal.attempts_total",
        "task.self_heal.recovered_total",
        "task.step.duration_seconds",
        "incident.opened_total",
        "incident.ended_total",
    ] {
        assert!(told.contains(&format!("{prefix}.{name}")), "{name}: {told:?}");
    }
    let service = metrics[0].pointer("/resourceMetrics/0/resource/attributes/0/value/stringValue");
    assert_eq!(service, Some(&"works".into()));
    let traces = bodies(&posts, "resourceSpans");
    let told = names(&traces, SPANS);
    let count = |name: &str| told.iter().filter(|known| *known == name).count();
    assert_eq!((count("job"), count("step attempt"), count("incident")), (1, 3, 1), "{told:?}");
    let spans = traces.iter().filter_map(|body| body.pointer(SPANS)?.as_array().cloned());
    let spans: Vec<Value> = spans.flatten().collect();
    let job = spans.iter().find(|span| span["name"] == "job").unwrap();
    let attempts = spans.iter().filter(|span| span["name"] == "step attempt");
    for attempt in attempts {
        assert_eq!(attempt["parentSpanId"], job["spanId"]);
        assert_eq!(attempt["traceId"], job["traceId"]);
    }
}

#[test]
fn a_checks_incident_reaches_a_collector_and_a_statsd_server_too() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    let (collector, server) = (Target::well(), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    server.set_read_timeout(Some(LONG)).unwrap();
    let mut salve = ward.command(&[]);
    salve.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    salve.env("SALVE_TELEMETRY_STATSD", server.local_addr().unwrap().to_string());
    assert_eq!(salve.output().unwrap().status.code(), Some(0));
    wait_for("a trace", || !bodies(&collector.posts(), "resourceSpans").is_empty());
    let told = names(&bodies(&collector.posts(), "resourceSpans"), SPANS);
    assert!(told.contains(&"incident".to_owned()) && told.contains(&"verify".to_owned()));
    let mut got = String::new();
    while !got.contains("incident.ended_total:1|c|#subject:check,outcome:recovered") {
        let mut bytes = [0; 1500];
        let read = server.recv(&mut bytes).unwrap();
        got.push_str(&String::from_utf8_lossy(&bytes[..read]));
        got.push('\n');
    }
    let text = ward.salve(&["metrics"]);
    assert!(text.contains("incident_ended_total{subject=\"check\",outcome=\"recovered\"} 1"));
}

#[test]
fn a_collector_that_never_answers_keeps_nothing_from_its_end() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let works = Works::new();
    let since = Instant::now();
    let mut salve = works.command(&["run", "--step", "true", "--step", "true"]);
    salve.env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    assert_eq!(salve.output().unwrap().status.code(), Some(0));
    // Without a bound it would wait for as long as the collector is silent.
    assert!(since.elapsed() < LONG, "{:?}", since.elapsed());
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut salve = works.command(&["run", "--", "true"]);
    salve.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{gone}"));
    assert_eq!(salve.output().unwrap().status.code(), Some(0));
}

/// Decision 5 of the jobs spec, name by name and tag by tag, as a server gets it.
#[test]
fn a_statsd_server_gets_every_figure_of_the_spec() {
    let works = Works::new();
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(LONG)).unwrap();
    let address = format!("telemetry.statsd={}", server.local_addr().unwrap());
    let run = |args: &[&str]| works.salve(&[&["--set", &address, "run"][..], args].concat()).code;
    let once = "test -e $OUT/once || { touch $OUT/once; exit 1; }";
    assert_eq!(run(&["--", "sh", "-c", once]), Some(0));
    assert_eq!(run(&["--", "sh", "-c", "exit 3"]), Some(1));
    assert_eq!(run(&["--wall", "1", "--attempts", "1", "--", "sleep", "600"]), Some(1));
    let busy = ["--idle", "1", "--wall", "600", "--attempts", "1", "--", "sleep", "600"];
    assert_eq!(run(&busy), Some(1));
    let prefix = "moonmind.spec_workflow.self_heal.";
    let mut missing = vec![
        "task.self_heal.attempts_total:1|c|#class:transient_runtime,strategy:soft_reset",
        "task.self_heal.attempts_total:1|c|#class:stuck_no_progress,strategy:hard_reset",
        "task.self_heal.recovered_total:1|c|#class:transient_runtime,strategy:soft_reset",
        "task.self_heal.exhausted_total:1|c|#class:stuck_no_progress,strategy:queue_retry",
        "task.step.duration_seconds:",
        "task.step.wall_timeout_total:1|c",
        "task.step.idle_timeout_total:1|c",
        "task.step.no_progress_total:1|c",
    ];
    let mut got = Vec::new();
    while !missing.is_empty() {
        let mut bytes = [0; 1500];
        let read = server.recv(&mut bytes).unwrap_or_else(|_| panic!("{missing:?} of {got:?}"));
        let line = String::from_utf8_lossy(&bytes[..read]).into_owned();
        let name = line.strip_prefix(prefix).unwrap();
        missing.retain(|wanted| !name.starts_with(wanted));
        got.push(line);
    }
    // In milliseconds, as every server reads it: a timer ended two of them after a second.
    let took = got.iter().filter_map(|line| {
        let value = line.strip_prefix(prefix)?.strip_prefix("task.step.duration_seconds:")?;
        value.strip_suffix("|ms")?.parse::<f64>().ok()
    });
    let longest = took.fold(0.0, f64::max);
    assert!((1_000.0..600_000.0).contains(&longest), "{longest}: {got:?}");
}

#[test]
fn a_healed_tool_call_is_told_like_every_other_incident() {
    let project = crate::tools::stage();
    let collector = Target::well();
    let mut salve = project.command(&["call", "--", "./hbctl", "get", "orders"]);
    salve.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    assert_eq!(salve.output().unwrap().status.code(), Some(0));
    wait_for("a trace", || !bodies(&collector.posts(), "resourceSpans").is_empty());
    let told = names(&bodies(&collector.posts(), "resourceSpans"), SPANS);
    assert!(told.contains(&"incident".to_owned()), "{told:?}");
}
