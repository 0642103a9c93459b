//! Traces: sends the spans of calls to an OpenTelemetry collector over OTLP.
//!
//! A call has a span if its header `traceparent` (W3C Trace Context) is sampled, or if it has no such header and
//! belongs to the configured share of calls. Spans wait in a bounded queue. A separate thread sends them, so a slow or
//! absent collector delays no call.

use std::{sync::Arc, time::Duration};

use opentelemetry::{
    Context, KeyValue, Value,
    propagation::{Extractor, TextMapPropagator},
    trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider as _},
};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter as Export},
};
use tonic::{Code, codegen::http::HeaderMap, transport::Channel};
use tracing::warn;

/// The time within which the collector must accept a batch of spans.
const EXPORT_MAX: Duration = Duration::from_secs(5);

/// The maximum time for a stopping daemon to send the last spans.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The header with the context of a trace.
const TRACEPARENT: &str = "traceparent";

/// Creates the spans of calls, and sends them.
#[derive(Clone, Debug)]
pub struct Traces(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    /// Whether calls without the header are traced.
    has_ratio: bool,
}

/// The span of a traced call. All clones refer to the same span.
#[derive(Clone, Debug)]
pub struct Trace {
    context: Context,
    tracer: SdkTracer,
}

/// A part of a traced call. The part ends when this value is dropped.
#[derive(Debug)]
pub struct Part(Span);

/// The headers of a call.
struct Headers<'h>(&'h HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}

impl Traces {
    /// Begins to send spans on a channel to a collector. `ratio` is the share of calls without the header that are
    /// traced, from 0 to 1. `instance` is the address of this daemon.
    ///
    /// # Errors
    ///
    /// If the exporter cannot be built.
    pub fn start(channel: Channel, ratio: f64, instance: &str) -> Result<Self, ExporterBuildError> {
        let exporter = SpanExporter::builder().with_tonic().with_channel(channel).with_timeout(EXPORT_MAX).build()?;
        let resource = Resource::builder().with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ]);
        // The environment variable OTEL_SERVICE_NAME has priority.
        let resource = match std::env::var_os("OTEL_SERVICE_NAME") {
            Some(_) => resource.build(),
            None => resource.with_service_name("kentd").build(),
        };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Reporting(exporter))
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("kentd");
        let propagator = TraceContextPropagator::new();
        Ok(Self(Arc::new(Inner { provider, tracer, propagator, has_ratio: ratio > 0.0 })))
    }

    /// Begins the span of a call to a method with these headers, if the call is traced.
    pub fn begin(&self, method: &'static str, port: &'static str, headers: &HeaderMap) -> Option<Trace> {
        let Inner { tracer, propagator, has_ratio, .. } = &*self.0;
        if !has_ratio && !headers.contains_key(TRACEPARENT) {
            return None;
        }
        let parent = propagator.extract_with_context(&Context::new(), &Headers(headers));
        let (service, name) = method.split_once('/').unwrap_or((method, ""));
        let attributes = [
            KeyValue::new("rpc.system", "grpc"),
            KeyValue::new("rpc.service", service),
            KeyValue::new("rpc.method", name),
            KeyValue::new("kent.port", port),
        ];
        let span = tracer.span_builder(method).with_kind(SpanKind::Server).with_attributes(attributes);
        let span = span.start_with_context(tracer, &parent);
        span.is_recording().then(|| Trace { context: parent.with_span(span), tracer: tracer.clone() })
    }

    /// Sends the last spans. Blocks for a limited time.
    pub fn stop(&self) {
        if let Err(error) = self.0.provider.shutdown_with_timeout(STOP_MAX) {
            warn!(%error, "the last spans of traces were not sent");
        }
    }
}

impl Trace {
    /// The ID of the trace, in hexadecimal.
    pub(crate) fn id(&self) -> String {
        self.context.span().span_context().trace_id().to_string()
    }

    /// Adds an attribute to the span of the call, unless the value is empty.
    pub fn note(&self, key: &'static str, value: &str) {
        if !value.is_empty() {
            self.context.span().set_attribute(KeyValue::new(key, value.to_owned()));
        }
    }

    /// Adds a number as an attribute to the span of the call.
    pub fn note_number(&self, key: &'static str, value: u64) {
        let value = i64::try_from(value).map_or_else(|_| Value::from(value.to_string()), Value::from);
        self.context.span().set_attribute(KeyValue::new(key, value));
    }

    /// Begins a part of the call.
    pub fn part(&self, name: &'static str) -> Part {
        Part(self.tracer.span_builder(name).start_with_context(&self.tracer, &self.context))
    }

    /// Ends the span of the call. Only the first `end` of a span has an effect.
    pub fn end(&self, code: Code) {
        let span = self.context.span();
        span.set_attribute(KeyValue::new("rpc.grpc.status_code", i64::from(i32::from(code))));
        // By OpenTelemetry's conventions, a server's span is an error only if the server is at fault.
        if matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        ) {
            span.set_status(Status::error(code.description()));
        }
        span.end();
    }
}

impl Part {
    /// Adds an attribute to the part.
    pub fn note(&mut self, key: &'static str, value: &str) {
        self.0.set_attribute(KeyValue::new(key, value.to_owned()));
    }

    /// Marks the part as failed.
    pub(crate) fn fail(&mut self, error: &str) {
        self.0.set_status(Status::error(error.to_owned()));
    }
}

/// An exporter whose failures are logged.
#[derive(Debug)]
struct Reporting<E>(E);

impl<E: Export> Export for Reporting<E> {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let count = spans.len();
        let exported = self.0.export(spans).await;
        if let Err(error) = &exported {
            warn!(%error, spans = count, "the trace collector (--otlp) did not accept spans; these spans are lost");
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}
