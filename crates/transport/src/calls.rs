//! The duration of calls, by port, method and code.
//!
//! `Allocator/Allocate` is left out, because there are metrics by source for this method.

use std::{convert::Infallible, future::Future, time::Duration};

use kent_engine::host::clock::Clock;
use kent_proto::model::code_name;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{HeaderMap, Response},
};

use super::methods;

/// The metrics of calls, for all ports.
#[derive(Clone, Debug)]
pub struct CallMetrics(Family<CallLabel, Histogram, fn() -> Histogram>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabel {
    port: &'static str,
    method: &'static str,
    code: &'static str,
}

/// The shared label of calls to methods that do not exist; separate labels would let callers create any number of time
/// series.
const OTHER: &str = "other";

/// A call in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    port: &'static str,
    method: &'static str,
    at: Duration,
}

impl Default for CallMetrics {
    fn default() -> Self {
        // The bounds go from 64 microseconds to 67 seconds, and each is four times the previous one.
        Self(Family::new_with_constructor(|| Histogram::new(exponential_buckets(64e-6, 4.0, 11))))
    }
}

impl Begun {
    /// A call to the method with this path.
    pub(super) fn new(port: &'static str, path: &str, clock: &dyn Clock) -> Self {
        let method = methods::known(path);
        Self { port, method: if method.is_empty() { OTHER } else { method }, at: clock.steady() }
    }
}

impl CallMetrics {
    /// Registers the metrics.
    pub fn register(&self, kent: &mut Registry) {
        kent.register_with_unit(
            "call_duration",
            "Time from a call to the start of its answer, for all methods except Allocate",
            Unit::Seconds,
            self.0.clone(),
        );
    }

    /// Measures the time to the start of the answer.
    pub(super) async fn measured(
        self,
        begun: Begun,
        clock: &dyn Clock,
        call: impl Future<Output = Result<Response<Body>, Infallible>>,
    ) -> Result<Response<Body>, Infallible> {
        let answer = call.await;
        let code = answer.as_ref().map_or(Code::Unknown, |answer| code(answer.headers()));
        self.observe(begun, clock, code);
        answer
    }

    /// Counts a call that was answered with this code now.
    pub(super) fn observe(&self, Begun { port, method, at }: Begun, clock: &dyn Clock, code: Code) {
        let took = clock.steady().saturating_sub(at);
        self.0.get_or_create(&CallLabel { port, method, code: code_name(code) }).observe(took.as_secs_f64());
    }
}

/// The status code in the headers of an answer. Without a code, the answer has messages, so the call has succeeded so
/// far.
fn code(head: &HeaderMap) -> Code {
    Status::from_header_map(head).map_or(Code::Ok, |status| status.code())
}
