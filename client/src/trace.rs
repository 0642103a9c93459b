//! Propagates the caller's trace in the headers of W3C Trace Context. Only with the feature `opentelemetry`.

use opentelemetry::{Context, trace::TraceContextExt};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

/// Adds the current OpenTelemetry context to the headers of a call, if there is one.
pub(crate) fn inject(headers: &mut MetadataMap) {
    let context = Context::current();
    let span = context.span();
    let span = span.span_context();
    if !span.is_valid() {
        return;
    }
    let mut insert = |name, text: String| {
        // A trace state that is not ASCII is left out.
        if let Ok(value) = MetadataValue::<Ascii>::try_from(text) {
            headers.insert(name, value);
        }
    };
    insert("traceparent", format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags()));
    match span.trace_state().header() {
        state if state.is_empty() => {}
        state => insert("tracestate", state),
    }
}
