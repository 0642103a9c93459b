//! The call that a log line belongs to.
//!
//! The call is stored in the task, and read only when a line is written.

use std::{
    future::Future,
    sync::{Arc, OnceLock},
};

use super::{address::Address, trace::Trace};

/// The facts about a call that appear in its log lines.
#[derive(Debug)]
pub struct Call {
    /// `SERVICE/METHOD`.
    pub(crate) method: &'static str,
    /// The caller's authenticated identity; empty if there is none.
    pub(crate) principal: String,
    pub(crate) peer: Option<Address>,
    /// The ID of the request, once the message is read.
    request_id: OnceLock<String>,
    /// The span of the call, if the call is traced.
    trace: Option<Trace>,
}

tokio::task_local! {
    static CALL: Option<Arc<Call>>;
}

impl Call {
    /// Describes a call.
    pub fn new(method: &'static str, principal: String, peer: Option<Address>) -> Self {
        Self { method, principal, peer, request_id: OnceLock::new(), trace: None }
    }

    /// Adds the span of the call, and adds the caller to the span.
    pub fn with_trace(self, trace: Option<Trace>) -> Self {
        if let Some(trace) = &trace {
            trace.note("kent.principal", &self.principal);
            trace.note("client.address", &self.peer.map(|peer| peer.to_string()).unwrap_or_default());
        }
        Self { trace, ..self }
    }

    /// Sets the request ID.
    pub fn with_request_id(self, request_id: &str) -> Self {
        // OK because a request has only one ID.
        let _ = self.request_id.set(request_id.to_owned());
        self
    }

    /// The fields that are known, in the order in which the log shows them.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let request_id = self.request_id.get().cloned().unwrap_or_default();
        let peer = self.peer.map(|peer| peer.to_string()).unwrap_or_default();
        let trace = self.trace.as_ref().map(Trace::id).unwrap_or_default();
        let fields = [
            ("method", self.method.to_owned()),
            ("principal", self.principal.clone()),
            ("request_id", request_id),
            ("peer", peer),
            ("trace_id", trace),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Attaches a call to a task.
pub fn of<F: Future>(call: Call, task: F) -> impl Future<Output = F::Output> {
    CALL.scope(Some(Arc::new(call)), task)
}

/// Attaches the current call to a task, if there is a current call.
pub(crate) fn inherited<F: Future>(task: F) -> impl Future<Output = F::Output> {
    CALL.scope(CALL.try_with(Clone::clone).unwrap_or_default(), task)
}

/// Records the request ID of the current call.
pub fn set_request_id(request_id: &str) {
    // OK because outside of a call there is nothing to record.
    let _ = CALL.try_with(|call| {
        let Some(call) = call else { return };
        let _ = call.request_id.set(request_id.to_owned());
        call.trace.iter().for_each(|trace| trace.note("kent.request_id", request_id));
    });
}

/// The span of the current call, if the call is traced.
pub(crate) fn trace() -> Option<Trace> {
    CALL.try_with(|call| call.as_ref()?.trace.clone()).ok().flatten()
}

/// The fields of the current call; empty outside of a call.
pub fn fields() -> Vec<(&'static str, String)> {
    CALL.try_with(|call| call.as_ref().map(|call| call.fields())).ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ok_a_task_of_a_call_knows_its_fields() {
        assert!(fields().is_empty());
        let call = Call::new("kent.v1.Regions/CreateRegion", "ann".to_owned(), None);
        let shown = of(call, async {
            let before = fields();
            set_request_id("r-1");
            (before, inherited(async { fields() }).await)
        });
        let (before, after) = shown.await;
        let method = ("method", "kent.v1.Regions/CreateRegion".to_owned());
        let principal = ("principal", "ann".to_owned());
        assert_eq!(before, [method.clone(), principal.clone()]);
        assert_eq!(after, [method, principal, ("request_id", "r-1".to_owned())]);
        assert!(fields().is_empty());
    }
}
