//! Traces: the spans that a real daemon sends to an OpenTelemetry collector.

use std::{collections::BTreeMap, process::Command, time::Duration};

use kent_client::{Client, tonic::Request};
use kent_proto::v1::{AllocateRequest, CreateRegionRequest, Encoding};
use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Response, Status, transport::Server};

use super::harness::{Daemon, data_dir, kentd, request};

/// The headers of a trace that is sampled, and of one that is not.
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-00";
const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that keeps what it receives.
struct Collector {
    address: String,
    spans: mpsc::UnboundedReceiver<Span>,
    _serving: JoinSet<Result<(), tonic::transport::Error>>,
}

struct Receiver(mpsc::UnboundedSender<Span>);

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let facts = facts(&resource.resource.expect("a resource").attributes);
            assert_eq!(facts["service.name"], "kentd");
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let _ = self.0.send(span);
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address").to_string();
        let (sender, spans) = mpsc::unbounded_channel();
        let service = TraceServiceServer::new(Receiver(sender));
        let mut serving = JoinSet::new();
        serving.spawn(Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, spans, _serving: serving }
    }

    /// A daemon that sends its spans to this collector, soon after their end.
    fn daemon(&self, more: &[&str]) -> (Daemon, tempfile::TempDir) {
        let data = data_dir();
        let mut command = kentd(data.path());
        (Daemon::spawn(traced(&mut command, &self.address).args(more)), data)
    }

    /// The next span.
    async fn next(&mut self) -> Span {
        let next = timeout(Duration::from_secs(60), self.spans.recv()).await;
        next.expect("a span arrives").expect("the collector runs")
    }

    /// The next span of a call, with the names of its parts. The parts end before the call.
    async fn next_call(&mut self) -> (Span, Vec<String>) {
        let mut parts = Vec::new();
        loop {
            let span = self.next().await;
            match span.kind {
                2 => return (span, parts),
                _ => parts.push(span.name),
            }
        }
    }
}

fn traced<'c>(command: &'c mut Command, collector: &str) -> &'c mut Command {
    command.args(["--otlp", &format!("http://{collector}")]).env("OTEL_BSP_SCHEDULE_DELAY", "20")
}

fn facts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let fact = |attribute: &KeyValue| {
        let value = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            Some(Value::IntValue(number)) => number.to_string(),
            other => format!("{other:?}"),
        };
        (attribute.key.clone(), value)
    };
    attributes.iter().map(fact).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A request with the header `traceparent`.
fn within<T>(traceparent: &'static str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("traceparent", traceparent.parse().expect("ASCII"));
    request
}

fn create(region: &str) -> CreateRegionRequest {
    CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(20),
        ..CreateRegionRequest::default()
    }
}

#[tokio::test]
async fn ok_sampled_calls_have_spans_with_their_facts_and_others_have_none() {
    let mut collector = Collector::start().await;
    let (daemon, _data) = collector.daemon(&[]);
    let allocate = |source, count| request(source, count, Encoding::Packed);
    daemon.allocator().allocate(allocate("uuidv7", 1)).await.expect("without a header");
    daemon.allocator().allocate(within(UNSAMPLED, allocate("uuidv7", 2))).await.expect("granted");
    daemon.allocator().allocate(within("nonsense", allocate("uuidv7", 3))).await.expect("granted");
    daemon.allocator().allocate(within(SAMPLED, allocate("uuidv7", 4))).await.expect("granted");
    let (span, parts) = collector.next_call().await;
    assert_eq!((span.name.as_str(), parts.len()), ("kent.v1.Allocator/Allocate", 0));
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE_ID.to_owned(), PARENT.to_owned()));
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    for (key, expected) in [
        ("rpc.system", "grpc"),
        ("rpc.service", "kent.v1.Allocator"),
        ("rpc.method", "Allocate"),
        ("rpc.grpc.status_code", "0"),
        ("kent.port", "grpc"),
        ("kent.source", "uuidv7"),
        ("kent.count", "4"),
    ] {
        assert_eq!(facts(&span.attributes).get(key).map(String::as_str), Some(expected), "{key}");
    }

    daemon.regions().create_region(within(SAMPLED, create("orders"))).await.expect("created");
    let (span, parts) = collector.next_call().await;
    assert_eq!(span.name, "kent.v1.Regions/CreateRegion");
    assert!(parts.iter().any(|part| part == "store commit"), "{parts:?}");
    assert!(facts(&span.attributes)["client.address"].starts_with("127.0.0.1:"));

    // The first grant of a region waits for a chunk.
    daemon.allocator().allocate(within(SAMPLED, allocate("region:orders", 1))).await.expect("granted");
    let (span, parts) = collector.next_call().await;
    assert_eq!(facts(&span.attributes)["kent.source"], "region:orders");
    assert!(parts.iter().any(|part| part == "wait"), "{parts:?}");

    let refused = daemon.allocator().allocate(within(SAMPLED, allocate("region:absent", 1))).await;
    refused.expect_err("no such region");
    let (span, _) = collector.next_call().await;
    assert_eq!(facts(&span.attributes)["rpc.grpc.status_code"], "5");
    assert_eq!(span.status.map(|status| status.code).unwrap_or_default(), 0, "the caller's error");
}

#[tokio::test]
async fn ok_calls_through_the_http_port_and_streams_have_spans() {
    let mut collector = Collector::start().await;
    let (daemon, _data) = collector.daemon(&[]);
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-H", "content-type: application/json", "-H", &format!("traceparent: {SAMPLED}")]);
    curl.args(["-d", r#"{"source": "xid", "count": 2}"#]);
    let answer = curl.arg(format!("http://{}/kent.v1.Allocator/Allocate", daemon.http_address())).output();
    assert!(answer.expect("curl runs").status.success());
    let (span, _) = collector.next_call().await;
    let facts = facts(&span.attributes);
    assert_eq!((facts["kent.port"].as_str(), facts["kent.source"].as_str()), ("http", "xid"));
    assert_eq!(hex(&span.trace_id), TRACE_ID);

    let requests = tokio_stream::iter([request("xid", 1, Encoding::Packed)]);
    let mut answers = daemon.allocator().allocate_stream(within(SAMPLED, requests)).await.expect("open").into_inner();
    while answers.message().await.expect("answered").is_some() {}
    let (span, _) = collector.next_call().await;
    assert_eq!(span.name, "kent.v1.Allocator/AllocateStream");
    assert_eq!(self::facts(&span.attributes)["rpc.grpc.status_code"], "0");
}

#[tokio::test]
async fn ok_a_share_of_the_calls_without_a_header_has_spans() {
    let mut collector = Collector::start().await;
    let (daemon, _data) = collector.daemon(&["--trace-ratio", "1"]);
    daemon.allocator().allocate(within(UNSAMPLED, request("xid", 1, Encoding::Packed))).await.expect("granted");
    daemon.allocator().allocate(request("xid", 2, Encoding::Packed)).await.expect("granted");
    let (span, _) = collector.next_call().await;
    assert_eq!(facts(&span.attributes)["kent.count"], "2");
    assert!(span.parent_span_id.is_empty() || span.parent_span_id.iter().all(|byte| *byte == 0));
}

#[tokio::test]
async fn ok_a_client_passes_its_context_on() {
    let mut collector = Collector::start().await;
    let (daemon, _data) = collector.daemon(&[]);
    let client = Client::builder().endpoint(daemon.grpc_address()).build().expect("a client");
    let parent = SpanContext::new(
        TraceId::from_hex(TRACE_ID).expect("an ID"),
        SpanId::from_hex(PARENT).expect("an ID"),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    let call = async {
        let allocate = AllocateRequest { source: "xid".to_owned(), count: 1, ..AllocateRequest::default() };
        client.connect().await.expect("connected").allocator().allocate(allocate).await.expect("granted");
    };
    opentelemetry::context::FutureExt::with_context(call, Context::new().with_remote_span_context(parent)).await;
    let (span, _) = collector.next_call().await;
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE_ID.to_owned(), PARENT.to_owned()));
}

#[tokio::test]
async fn ok_the_last_spans_are_sent_at_the_end_and_an_absent_collector_delays_nothing() {
    let mut collector = Collector::start().await;
    let data = data_dir();
    // The daemon sends its spans only once a minute, or when it stops.
    let mut command = kentd(data.path());
    let daemon = Daemon::spawn(traced(&mut command, &collector.address).env("OTEL_BSP_SCHEDULE_DELAY", "60000"));
    daemon.allocator().allocate(within(SAMPLED, request("xid", 1, Encoding::Packed))).await.expect("granted");
    daemon.signal("TERM");
    assert!(daemon.wait().await.success());
    assert_eq!(collector.next().await.name, "kent.v1.Allocator/Allocate");

    let mut command = kentd(data.path());
    let daemon = Daemon::spawn(traced(&mut command, "127.0.0.1:9"));
    for _ in 0..100 {
        daemon.allocator().allocate(within(SAMPLED, request("xid", 1, Encoding::Packed))).await.expect("granted");
    }
    daemon.signal("TERM");
    assert!(daemon.wait().await.success());
}
