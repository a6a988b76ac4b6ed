//! Figures and spans by OTLP over HTTP, as JSON.
//!
//! The bodies are a few hundred lines of core. The crates that speak OTLP bring a runtime of their own
//! or protobuf, gRPC and thirty crates more, to say the same.

use std::env;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::telemetry::{Metric, OtlpBatch, OtlpResource, Span};
use serde_json::Value;

/// How long is gathered before it is sent.
const GATHER: Duration = Duration::from_secs(5);

/// How long one request may take, and one when the run is over.
const LIMIT: Duration = Duration::from_secs(3);
const LAST_LIMIT: Duration = Duration::from_millis(600);

/// How long a collector that did not take anything is left alone.
const AGAIN: Duration = Duration::from_secs(30);

/// Sends what was gathered to a collector.
#[derive(Debug)]
pub(super) struct OtlpExporter {
    metrics: String,
    traces: String,
    headers: Vec<(String, String)>,
    resource: OtlpResource,
    batch: OtlpBatch,
    sent: Instant,
    /// When it last took nothing.
    missed: Option<Instant>,
}

impl OtlpExporter {
    /// Makes one by the variables of OpenTelemetry, if they name a collector.
    pub(super) fn of_environment(prefix: &str) -> Option<Self> {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let is = |name: &str, word: &str| set(name).is_some_and(|v| v.eq_ignore_ascii_case(word));
        // Whoever listens for gRPC does not understand us.
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc") {
            return None;
        }
        let base = set("OTEL_EXPORTER_OTLP_ENDPOINT");
        let of = |own: &str, path: &str| {
            let joined = |base: &String| format!("{}/{path}", base.trim_end_matches('/'));
            set(own).or_else(|| base.as_ref().map(joined)).unwrap_or_default()
        };
        let metrics = of("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "v1/metrics");
        let traces = of("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "v1/traces");
        if metrics.is_empty() && traces.is_empty() {
            return None;
        }
        Some(Self {
            metrics,
            traces,
            headers: headers(&set("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default()),
            resource: OtlpResource {
                service: set("OTEL_SERVICE_NAME").unwrap_or_else(|| "salve".to_owned()),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                prefix: prefix.to_owned(),
            },
            batch: OtlpBatch::since(Timestamp::now()),
            sent: Instant::now(),
            missed: None,
        })
    }

    /// Gathers.
    pub(super) fn add(&mut self, metrics: Vec<Metric>, spans: Vec<Span>) {
        self.batch.add(metrics, spans);
    }

    /// Sends what was gathered, if it is time; `is_last` says that nothing follows.
    pub(super) fn flush(&mut self, is_last: bool) {
        let is_time = is_last || self.sent.elapsed() >= GATHER;
        if !is_time || self.batch.is_empty() {
            return;
        }
        self.sent = Instant::now();
        let now = Timestamp::now();
        let batch = std::mem::replace(&mut self.batch, OtlpBatch::since(now));
        if self.missed.is_some_and(|at| at.elapsed() < AGAIN) {
            // What nobody takes is lost.
            return;
        }
        let limit = if is_last { LAST_LIMIT } else { LIMIT };
        let bodies = [
            (&self.metrics, batch.metrics_body(&self.resource, now)),
            (&self.traces, batch.traces_body(&self.resource)),
        ];
        let mut is_taken = true;
        for (url, body) in bodies {
            if let Some(body) = body.filter(|_| is_taken && !url.is_empty()) {
                is_taken = self.post(url, &body, limit);
            }
        }
        self.missed = (!is_taken).then(Instant::now);
    }

    /// Sends one body; tells whether somebody was there.
    fn post(&self, url: &str, body: &Value, limit: Duration) -> bool {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(limit))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("salve/", env!("CARGO_PKG_VERSION")));
        let agent = ureq::Agent::new_with_config(config.build());
        let mut request = agent.post(url).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.send(body.to_string().as_bytes()).is_ok()
    }
}

/// Returns the headers that a variable names, as `name=value,name=value`.
fn headers(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim().to_owned(), decoded(value.trim())))
    };
    text.split(',').filter_map(pair).filter(|(name, _)| !name.is_empty()).collect()
}

/// Returns a value without its percent signs.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| first == b'%');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_specification_has_them() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            headers("Authorization=Basic%20abc=, x = y ,,=z"),
            [pair("Authorization", "Basic abc="), pair("x", "y")]
        );
        assert!(headers("").is_empty());
    }
}
