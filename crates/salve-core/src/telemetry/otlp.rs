//! Figures and spans as OTLP's JSON has them: the bodies of `v1/metrics` and `v1/traces`.
//!
//! Sums and histograms are deltas: each body tells what came since the one before, so whoever starts
//! again tells nothing twice.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::figures::{Metric, MetricName, MetricTags};
use super::spans::{Span, SpanStatus};

/// Where the buckets of a histogram end, in seconds.
const BOUNDS: [f64; 10] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0];

/// What sends: a service, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpResource {
    /// The service's name.
    pub service: String,
    /// The version of Salve.
    pub version: String,
    /// What the names of figures begin with.
    pub prefix: String,
}

/// What came since the last time.
#[derive(Clone, Debug)]
pub struct OtlpBatch {
    since: Timestamp,
    metrics: Vec<Metric>,
    spans: Vec<Span>,
}

impl OtlpBatch {
    /// Begins to gather.
    pub fn since(since: Timestamp) -> Self {
        Self { since, metrics: Vec::new(), spans: Vec::new() }
    }

    /// Adds figures and spans.
    pub fn add(&mut self, metrics: Vec<Metric>, spans: Vec<Span>) {
        self.metrics.extend(metrics);
        self.spans.extend(spans);
    }

    /// Returns whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.spans.is_empty()
    }

    /// Returns the body of `v1/metrics`, if there are figures.
    pub fn metrics_body(&self, of: &OtlpResource, now: Timestamp) -> Option<Value> {
        if self.metrics.is_empty() {
            return None;
        }
        let (from, to) = (nanos(self.since), nanos(now));
        let mut groups: Vec<(MetricName, MetricTags, Vec<f64>)> = Vec::new();
        for metric in &self.metrics {
            let is_it = |group: &&mut (MetricName, MetricTags, Vec<f64>)| {
                group.0 == metric.name && group.1 == metric.tags
            };
            match groups.iter_mut().find(is_it) {
                Some(group) => group.2.push(metric.value),
                None => groups.push((metric.name, metric.tags, vec![metric.value])),
            }
        }
        let points = |name: MetricName| -> Vec<Value> {
            let own = groups.iter().filter(|(known, ..)| *known == name);
            let point = |(_, tags, values): &(MetricName, MetricTags, Vec<f64>)| {
                let mut point = data_point(name, *tags, values);
                point["startTimeUnixNano"] = from.as_str().into();
                point["timeUnixNano"] = to.as_str().into();
                point
            };
            own.map(point).collect()
        };
        let metric = |name: MetricName| {
            let points = points(name);
            let full = format!("{}.{}", of.prefix, name.as_str());
            // 1 is "delta".
            let data = json!({ "aggregationTemporality": 1, "dataPoints": points });
            if points.is_empty() {
                None
            } else if name.is_timer() {
                Some(json!({ "name": full, "unit": "s", "histogram": data }))
            } else {
                let mut sum = data;
                sum["isMonotonic"] = true.into();
                Some(json!({ "name": full, "unit": "1", "sum": sum }))
            }
        };
        let metrics: Vec<Value> = MetricName::ALL.into_iter().filter_map(metric).collect();
        Some(json!({ "resourceMetrics": [{
            "resource": of.resource(),
            "scopeMetrics": [{ "scope": of.scope(), "metrics": metrics }],
        }] }))
    }

    /// Returns the body of `v1/traces`, if there are spans.
    pub fn traces_body(&self, of: &OtlpResource) -> Option<Value> {
        if self.spans.is_empty() {
            return None;
        }
        let spans: Vec<Value> = self.spans.iter().map(span).collect();
        Some(json!({ "resourceSpans": [{
            "resource": of.resource(),
            "scopeSpans": [{ "scope": of.scope(), "spans": spans }],
        }] }))
    }
}

impl OtlpResource {
    fn resource(&self) -> Value {
        json!({ "attributes": [
            attribute("service.name", &self.service),
            attribute("service.version", &self.version),
        ] })
    }

    fn scope(&self) -> Value {
        json!({ "name": "salve", "version": self.version })
    }
}

/// Returns what came of one figure with these tags.
fn data_point(name: MetricName, tags: MetricTags, values: &[f64]) -> Value {
    let tags = tags.pairs().into_iter().map(|(key, value)| attribute(key, value));
    let mut point = if name.is_timer() {
        histogram(values)
    } else {
        json!({ "asDouble": values.iter().sum::<f64>() })
    };
    point["attributes"] = tags.collect::<Vec<_>>().into();
    point
}

fn histogram(values: &[f64]) -> Value {
    let mut counts = [0_u64; BOUNDS.len() + 1];
    for value in values {
        let bucket = BOUNDS.iter().position(|bound| value <= bound).unwrap_or(BOUNDS.len());
        counts[bucket] += 1;
    }
    json!({
        "count": values.len().to_string(),
        "sum": values.iter().sum::<f64>(),
        "explicitBounds": BOUNDS,
        "bucketCounts": counts.map(|count| count.to_string()),
    })
}

fn span(span: &Span) -> Value {
    let attributes = span.attributes.iter().map(|(key, value)| attribute(key, value));
    let mut told = json!({
        "traceId": hex(&span.trace.0),
        "spanId": hex(&span.id.0),
        "name": span.name,
        // 1 is "internal".
        "kind": 1,
        "startTimeUnixNano": nanos(span.from),
        "endTimeUnixNano": nanos(span.to),
        "attributes": attributes.collect::<Vec<_>>(),
        "status": match span.status {
            SpanStatus::Well => json!({ "code": 1 }),
            SpanStatus::Failed => json!({ "code": 2 }),
            SpanStatus::Unknown => json!({}),
        },
    });
    if let Some(parent) = &span.parent {
        told["parentSpanId"] = hex(&parent.0).into();
    }
    told
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns nanoseconds since 1970 as the text that protobuf's JSON has for numbers so large.
fn nanos(at: Timestamp) -> String {
    at.as_nanosecond().max(0).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
