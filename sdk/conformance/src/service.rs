//! The service of a simulated daemon: answers each call as the script defines.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use kent_ids::Block;
use kent_proto::{
    model::texts,
    stored::TextForm,
    v1::{
        self, AllocateRequest, AllocateResponse, AllocateStreamResponse, Encoding, PackedData, PackedIdentifiers,
        allocate_response::Identifiers, allocator_server::Allocator,
    },
};
use tokio::{
    sync::watch,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{
    codes,
    ledger::Ledger,
    log::{Log, whole},
    script::{Answer, Does, Refuse},
    wire::Cut,
};

/// A daemon's script, and the calls that the daemon has received.
#[derive(Debug)]
pub(crate) struct Played {
    name: String,
    token: Option<String>,
    log: Arc<Log>,
    ledger: Arc<Ledger>,
    state: Mutex<State>,
    /// The number of calls. Steps that wait for calls subscribe to it.
    pub(crate) called: watch::Sender<usize>,
    /// Canceled when the daemon dies, and replaced when it comes back.
    pub(crate) alive: Mutex<CancellationToken>,
}

#[derive(Debug)]
struct State {
    answers: VecDeque<Answer>,
    then: Answer,
    /// The sources of all calls.
    calls: Vec<String>,
    /// The time before which no call may arrive.
    quiet_until: Option<Instant>,
}

/// The maximum number of identifiers as text in one reply.
const TEXTS_MAX: u64 = 10_000;
/// The maximum number of packed identifiers in one reply.
const PACKED_MAX: u64 = 200_000;
/// The maximum number of identifiers in a lease. The kit records each of them.
const LEASE_MAX: u64 = 1_000_000;
/// The maximum time by which a client's timer may fire early.
const EARLY: Duration = Duration::from_millis(20);

impl Played {
    pub(crate) fn new(name: &str, token: Option<String>, log: Arc<Log>, ledger: Arc<Ledger>) -> Self {
        let state = State { answers: VecDeque::new(), then: Answer::default(), calls: Vec::new(), quiet_until: None };
        let (called, alive) = (watch::Sender::new(0), Mutex::default());
        Self { name: name.to_owned(), token, log, ledger, state: Mutex::new(state), called, alive }
    }

    /// Replaces the answers.
    pub(crate) fn answer(&self, answers: &[Answer], then: &Answer) {
        let mut state = whole(&self.state);
        state.answers = answers.iter().cloned().collect();
        state.then = then.clone();
        state.quiet_until = None;
    }

    /// Returns the number of calls for one source or for all sources.
    pub(crate) fn calls(&self, source: Option<&str>) -> usize {
        whole(&self.state).calls.iter().filter(|called| source.is_none_or(|source| source == *called)).count()
    }

    /// Breaks all connections and stops listening.
    pub(crate) fn die(&self) {
        self.log.say(&self.name, "dies");
        whole(&self.alive).cancel();
    }

    fn say(&self, what: impl fmt::Display) {
        self.log.say(&self.name, &what.to_string());
    }

    /// Counts a call, and returns its answer.
    fn next(&self, source: &str) -> Answer {
        let mut state = whole(&self.state);
        if state.quiet_until.is_some_and(|until| Instant::now() + EARLY < until) {
            let source = state.calls.last().map_or("", String::as_str);
            self.log.fault(format!("{} was called again before the delay that it asked for ({source})", self.name));
        }
        let fits = |answer: &Answer| answer.source.as_ref().is_none_or(|only| only == source);
        let Some(at) = state.answers.iter().position(fits) else { return state.then.clone() };
        let answer = state.answers[at].clone();
        match &mut state.answers[at].times {
            Some(times) if *times > 1 => *times -= 1,
            _ => drop(state.answers.remove(at)),
        }
        answer
    }

    async fn answer_to(
        &self,
        ask: AllocateRequest,
        token: Option<String>,
        cut: Option<Cut>,
    ) -> Result<AllocateResponse, Status> {
        let encoding = Encoding::try_from(ask.encoding).unwrap_or_default();
        let id = if ask.request_id.is_empty() { String::new() } else { format!(", request ID {}", ask.request_id) };
        self.say(format_args!("is asked for {} of {} as {}{id}", ask.count, ask.source, encoding.as_str_name()));
        whole(&self.state).calls.push(ask.source.clone());
        let answered = self.decide(&ask, encoding, token, cut).await;
        match &answered {
            Ok(reply) => self.say(format_args!("grants {}", Shown(reply))),
            Err(status) => self.say(format_args!("refuses: {:?} {}", status.code(), status.message())),
        }
        answered
    }

    async fn decide(
        &self,
        ask: &AllocateRequest,
        encoding: Encoding,
        token: Option<String>,
        cut: Option<Cut>,
    ) -> Result<AllocateResponse, Status> {
        let wanted = self.token.as_ref().map(|wanted| format!("Bearer {wanted}"));
        if wanted.is_some() && wanted != token {
            self.called();
            let reason = if token.is_some() { "BAD_CREDENTIAL" } else { "NO_CREDENTIAL" };
            return Err(refusal(Code::Unauthenticated, &reasoned(reason)));
        }
        let max = match encoding {
            Encoding::Text => TEXTS_MAX,
            Encoding::Packed => PACKED_MAX,
            Encoding::Lease | Encoding::Unspecified => LEASE_MAX,
        };
        if !(1..=max).contains(&ask.count) {
            self.called();
            let fields = vec!["count".to_owned()];
            return Err(refusal(Code::InvalidArgument, &Refuse { fields, ..reasoned("BAD_FIELD") }));
        }
        let answer = self.next(&ask.source);
        self.called();
        time::sleep(Duration::from_millis(answer.delay_ms)).await;
        if answer.quiet_ms > 0 {
            whole(&self.state).quiet_until = Some(Instant::now() + Duration::from_millis(answer.quiet_ms));
        }
        if let Some(refuse) = &answer.refuse {
            return Err(refusal(codes::parse(&refuse.code).unwrap_or(Code::Unknown), refuse));
        }
        let grant = answer.grant.unwrap_or_default();
        let commit = |label: &str| {
            let granted = self.ledger.grant(&ask.source, ask.count, &ask.request_id, &grant, label);
            granted.map_err(|problem| {
                self.log.fault(format!("the kit cannot grant {}: {problem}", ask.source));
                Status::invalid_argument(problem)
            })
        };
        let reply = |identifiers| AllocateResponse { identifiers, clock_epoch: grant.clock_epoch };
        match answer.does {
            None => {
                let block = commit(grant.label.as_deref().unwrap_or(&self.name))?;
                Ok(reply(Some(encoded(&block, encoding))))
            }
            Some(Does::Empty) => Ok(reply(None)),
            Some(Does::Ragged) => Ok(reply(Some(ragged(encoding)))),
            Some(Does::Hang) => self.never("hangs").await,
            Some(Does::Lose) => {
                // A retry with the same request ID gets this block again, so the block gets the same label as other
                // grants.
                commit(if ask.request_id.is_empty() { "lost" } else { &self.name })?;
                cut.iter().for_each(Cut::now);
                self.never("grants, and breaks the connection before the reply").await
            }
            Some(Does::Drop) => {
                cut.iter().for_each(Cut::now);
                self.never("breaks the connection").await
            }
            Some(Does::Die) => {
                self.die();
                self.never("is dead").await
            }
        }
    }

    fn called(&self) {
        self.called.send_modify(|calls| *calls += 1);
    }

    async fn never<T>(&self, what: &str) -> T {
        self.say(what);
        std::future::pending().await
    }
}

/// The service of a daemon.
pub(crate) struct Service(pub(crate) Arc<Played>);

#[tonic::async_trait]
impl Allocator for Service {
    type AllocateStreamStream =
        Pin<Box<dyn tokio_stream::Stream<Item = Result<AllocateStreamResponse, Status>> + Send>>;

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let token = request.metadata().get("authorization");
        let token = token.map(|token| String::from_utf8_lossy(token.as_bytes()).into_owned());
        let cut = request.extensions().get::<Cut>().cloned();
        self.0.answer_to(request.into_inner(), token, cut).await.map(Response::new)
    }

    async fn allocate_stream(
        &self,
        _: Request<Streaming<AllocateRequest>>,
    ) -> Result<Response<Self::AllocateStreamStream>, Status> {
        Err(Status::unimplemented("the kit does not simulate streams"))
    }
}

fn encoded(block: &Block, encoding: Encoding) -> Identifiers {
    match encoding {
        Encoding::Lease | Encoding::Unspecified => Identifiers::Lease(v1::Block::from(block)),
        Encoding::Packed => Identifiers::Packed(PackedIdentifiers::from(block)),
        Encoding::Text => Identifiers::Text(texts(block, TextForm::Decimal)),
    }
}

/// Returns identifiers that cannot be decoded.
fn ragged(encoding: Encoding) -> Identifiers {
    match encoding {
        Encoding::Lease | Encoding::Unspecified => Identifiers::Lease(v1::Block { count: 1, ..v1::Block::default() }),
        Encoding::Packed | Encoding::Text => Identifiers::Packed(PackedIdentifiers {
            width: 8,
            data: PackedData::Bytes(vec![1; 9].into()),
            ..PackedIdentifiers::default()
        }),
    }
}

fn reasoned(reason: &str) -> Refuse {
    Refuse {
        code: String::new(),
        reason: Some(reason.to_owned()),
        metadata: std::collections::BTreeMap::new(),
        fields: Vec::new(),
        retry_after_ms: None,
        message: reason.to_lowercase(),
    }
}

fn refusal(code: Code, refuse: &Refuse) -> Status {
    let mut details = ErrorDetails::new();
    if let Some(reason) = &refuse.reason {
        let metadata: Vec<(String, String)> = refuse.metadata.clone().into_iter().collect();
        details.set_error_info(reason, "kent", metadata.into_iter().collect::<std::collections::HashMap<_, _>>());
    }
    if let Some(delay) = refuse.retry_after_ms {
        details.set_retry_info(Some(Duration::from_millis(delay)));
    }
    for field in &refuse.fields {
        details.add_bad_request_violation(field, "scripted");
    }
    Status::with_error_details(code, &refuse.message, details)
}

/// A reply, formatted on one line.
struct Shown<'a>(&'a AllocateResponse);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.identifiers {
            Some(Identifiers::Lease(block)) => {
                write!(
                    f,
                    "a lease of {} from {}",
                    block.count,
                    block.first.as_ref().map_or(0, |first| u128::from(*first))
                )
            }
            Some(Identifiers::Packed(packed)) => {
                let count = packed.data.len() / packed.width.max(1) as usize;
                write!(f, "{count} packed, fence {} of {}", packed.fence_token, packed.fence_subject)
            }
            Some(Identifiers::Text(text)) => {
                let first = text.ids.first().map_or("", String::as_str);
                write!(f, "{} texts from {first}, fence {} of {}", text.ids.len(), text.fence_token, text.fence_subject)
            }
            None => write!(f, "nothing"),
        }
    }
}
