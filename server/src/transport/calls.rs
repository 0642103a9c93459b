//! How long calls take, for each port, method and code.
//!
//! `Allocator/Allocate` is absent: it has metrics for each source, and measuring it twice would cost more than it tells.

use std::{convert::Infallible, future::Future, time::Duration};

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
use crate::host::clock::Clock;

/// The metrics of the calls of all ports.
#[derive(Clone, Debug)]
pub(crate) struct CallMetrics(Family<CallLabel, Histogram, fn() -> Histogram>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabel {
    port: &'static str,
    method: &'static str,
    code: &'static str,
}

/// The label of calls of methods that do not exist, so that no caller makes time series of its own.
const OTHER: &str = "other";

/// A call that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    port: &'static str,
    method: &'static str,
    at: Duration,
}

impl Default for CallMetrics {
    fn default() -> Self {
        // From 64 microseconds to 67 seconds, each four times the one before.
        Self(Family::new_with_constructor(|| Histogram::new(exponential_buckets(64e-6, 4.0, 11))))
    }
}

impl Begun {
    /// A call of the method with this path.
    pub(super) fn new(port: &'static str, path: &str, clock: &dyn Clock) -> Self {
        let method = methods::known(path);
        Self { port, method: if method.is_empty() { OTHER } else { method }, at: clock.steady() }
    }
}

impl CallMetrics {
    pub(crate) fn register(&self, kent: &mut Registry) {
        kent.register_with_unit(
            "call_duration",
            "Time until the answer to a call begins, without Allocate",
            Unit::Seconds,
            self.0.clone(),
        );
    }

    /// Measures a call until its answer begins.
    pub(super) async fn measured(
        self,
        begun: Begun,
        clock: &dyn Clock,
        call: impl Future<Output = Result<Response<Body>, Infallible>>,
    ) -> Result<Response<Body>, Infallible> {
        let answer = call.await;
        let code = answer.as_ref().map_or(Code::Unknown, |answer| code(answer.headers()));
        let Begun { port, method, at } = begun;
        let took = clock.steady().saturating_sub(at);
        self.0.get_or_create(&CallLabel { port, method, code: code_name(code) }).observe(took.as_secs_f64());
        answer
    }
}

/// The code of an answer. Without one in its head the answer has messages, so the call has succeeded so far.
fn code(head: &HeaderMap) -> Code {
    Status::from_header_map(head).map_or(Code::Ok, |status| status.code())
}
