//! What is told to whoever watches many runs: figures and spans, folded from the journal.
//!
//! Nothing here is kept anywhere: whoever reads the journal from its beginning gets the same.

mod figures;
mod otlp;
mod spans;
#[cfg(test)]
mod tests;

pub use figures::{Metric, MetricName, MetricTags, MetricsFold, prometheus_text, statsd_line};
pub use otlp::{OtlpBatch, OtlpResource};
pub use spans::{Span, SpanFold, SpanId, SpanStatus, TraceId};
