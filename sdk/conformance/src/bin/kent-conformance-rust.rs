//! The adapter of the Rust client: runs the commands of the conformance kit.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, BufRead, Read, Write},
    process,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fork::{Fork, fork};
use futures_util::FutureExt;
use kent_client::{
    Client, Error, Handle, Id,
    tonic::{Code, Status},
};
use kent_conformance::{
    codes,
    expect::{Answered, Problem},
};
use serde::Deserialize;
use serde_json::json;
use tokio::{runtime::Runtime, sync::watch, task::JoinSet, time};
use tonic_types::StatusExt;

/// A command of the kit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Command {
    id: u64,
    r#do: String,
    endpoints: Vec<String>,
    attempt_timeout_ms: Option<u64>,
    request_timeout_ms: Option<u64>,
    block_size: Option<u64>,
    block_size_max: Option<u64>,
    low_water: Option<f64>,
    max_age_ms: Option<u64>,
    follow_heirs: bool,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    token: Option<String>,
    token_file: Option<String>,
    source: String,
    count: Option<u64>,
    threads: Option<u64>,
    timeout_ms: Option<u64>,
    request_id: String,
}

/// The result of a command: the identifiers that were taken, and the error.
type Outcome = (Vec<String>, Option<Box<Problem>>);

fn main() -> io::Result<()> {
    let runtime = Runtime::new()?;
    let mut stdout = io::stdout();
    let can = ["try_next", "take", "fetch", "threads", "fork", "xid", "tls", "token_file", "heirs"];
    writeln!(stdout, "{}", json!({"hello": {"language": "rust", "can": can}}))?;
    let (adapter, mut running) = (Arc::new(Adapter::default()), JoinSet::new());
    for line in io::stdin().lock().lines() {
        let command: Command = serde_json::from_str(&line?)?;
        match command.r#do.as_str() {
            "open" => say(command.id, (Vec::new(), adapter.open(&command).err())),
            // The process forks in this thread, which has no other work.
            "fork" => say(command.id, adapter.fork(&runtime, &command)),
            _ => {
                let adapter = adapter.clone();
                running.spawn_on(async move { say(command.id, adapter.run(&command).await) }, runtime.handle());
            }
        }
    }
    // Let commands that are about to end print their answers.
    runtime
        .block_on(async {
            time::timeout(Duration::from_secs(1), async { while running.join_next().await.is_some() {} }).await
        })
        .ok();
    runtime.shutdown_background();
    Ok(())
}

/// Prints an answer. If that fails, the kit has exited.
fn say(id: u64, (ids, error): Outcome) {
    let answer = serde_json::to_string(&Answered { id, ids: Some(ids), error });
    if answer.and_then(|answer| writeln!(io::stdout(), "{answer}").map_err(serde_json::Error::io)).is_err() {
        process::exit(1);
    }
}

/// The client under test. The Rust client has no `close` method: a program drops the client, its handles and its calls.
#[derive(Default)]
struct Adapter {
    client: Mutex<Option<Client>>,
    handles: Mutex<HashMap<String, Handle<Id>>>,
    closed: watch::Sender<bool>,
}

impl Adapter {
    fn open(&self, command: &Command) -> Result<(), Box<Problem>> {
        let mut builder = Client::builder();
        for endpoint in &command.endpoints {
            builder = builder.endpoint(endpoint);
        }
        let millis = Duration::from_millis;
        builder =
            command.attempt_timeout_ms.into_iter().fold(builder, |builder, ms| builder.attempt_timeout(millis(ms)));
        builder =
            command.request_timeout_ms.into_iter().fold(builder, |builder, ms| builder.request_timeout(millis(ms)));
        builder = command.max_age_ms.into_iter().fold(builder, |builder, ms| builder.max_age(millis(ms)));
        builder = command.block_size.into_iter().fold(builder, |builder, count| builder.block_size(count));
        builder = command.block_size_max.into_iter().fold(builder, |builder, count| builder.block_size_max(count));
        builder = command.low_water.into_iter().fold(builder, |builder, share| builder.low_water(share));
        builder = command.ca.iter().fold(builder, |builder, path| builder.ca_file(path));
        builder = command.token.iter().fold(builder, |builder, token| builder.token(token));
        builder = command.token_file.iter().fold(builder, |builder, path| builder.token_file(path));
        if let (Some(cert), Some(key)) = (&command.cert, &command.key) {
            builder = builder.identity_files(cert, key);
        }
        let client = builder.follow_heirs(command.follow_heirs).build();
        let client = client.map_err(|error| problem("config", &error.to_string()))?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
        Ok(())
    }

    fn handle(&self, source: &str) -> Result<Handle<Id>, Box<Problem>> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let client = client.as_ref().ok_or_else(|| problem("closed", "the client is closed"))?;
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(handles.entry(source.to_owned()).or_insert_with(|| client.source(source)).clone())
    }

    async fn run(&self, command: &Command) -> Outcome {
        if command.r#do == "close" {
            self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
            self.handles.lock().unwrap_or_else(PoisonError::into_inner).clear();
            self.closed.send_replace(true);
            return (Vec::new(), None);
        }
        let handle = match self.handle(&command.source) {
            Ok(handle) => handle,
            Err(problem) => return (Vec::new(), Some(problem)),
        };
        let mut closed = self.closed.subscribe();
        tokio::select! {
            outcome = take(handle, command) => outcome,
            _ = closed.wait_for(|closed| *closed) => (Vec::new(), Some(problem("closed", "the client is closed"))),
        }
    }

    /// Forks. The child sends its result to the parent through a pipe.
    fn fork(&self, runtime: &Runtime, command: &Command) -> Outcome {
        let _inside = runtime.enter();
        let failed = |error: io::Error| (Vec::new(), Some(problem("config", &error.to_string())));
        let handle = match self.handle(&command.source) {
            Ok(handle) => handle,
            Err(problem) => return (Vec::new(), Some(problem)),
        };
        let (mut reader, mut writer) = match io::pipe() {
            Ok(ends) => ends,
            Err(error) => return failed(error),
        };
        match fork() {
            Ok(Fork::Child) => {
                // The runtime's threads exist only in the parent, so a call that waits in the child would wait forever.
                let error = match handle.next().now_or_never() {
                    Some(Ok(id)) => {
                        problem("config", &format!("the child got the identifier {id}, which its parent prefetched"))
                    }
                    Some(Err(error)) => explain(&error),
                    None => problem("config", "the handle waits for a block in the child"),
                };
                let told = serde_json::to_string(&error).unwrap_or_default();
                // OK because the parent detects that no result arrives.
                let _ = writer.write_all(told.as_bytes());
                drop(writer);
                process::exit(0);
            }
            Ok(Fork::Parent(_)) => {
                drop(writer);
                let mut told = String::new();
                match reader.read_to_string(&mut told) {
                    Ok(_) => {
                        (Vec::new(), serde_json::from_str(&told).unwrap_or_else(|_| problem("config", &told)).into())
                    }
                    Err(error) => failed(error),
                }
            }
            Err(error) => failed(error),
        }
    }
}

async fn take(handle: Handle<Id>, command: &Command) -> Outcome {
    let count = command.count.unwrap_or(1);
    let all = usize::try_from(count).unwrap_or(usize::MAX);
    let taken = |taken: Result<Vec<Id>, Box<Problem>>| match taken {
        Ok(ids) => (ids.iter().map(Id::to_string).collect(), None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    match command.r#do.as_str() {
        "next" => {
            let mut threads = JoinSet::new();
            for _ in 0..command.threads.unwrap_or(1) {
                threads.spawn(next(handle.clone(), count, command.timeout_ms));
            }
            let each = threads.join_all().await;
            each.into_iter().fold((Vec::new(), None), |(mut ids, first), (more, error)| {
                ids.extend(more);
                (ids, first.or(error))
            })
        }
        "try_next" => (handle.try_next().iter().map(Id::to_string).collect(), None),
        "take" => taken(within(command.timeout_ms, handle.take(all)).await),
        "fetch" => {
            let fetch =
                async { Ok(handle.fetch_block(count).request_id(&command.request_id).await?.into_iter().collect()) };
            taken(within(command.timeout_ms, fetch).await)
        }
        other => (Vec::new(), Some(problem("config", &format!("there is no command {other:?}")))),
    }
}

async fn next(handle: Handle<Id>, count: u64, timeout_ms: Option<u64>) -> Outcome {
    let mut ids = Vec::new();
    for _ in 0..count {
        match within(timeout_ms, handle.next()).await {
            Ok(id) => ids.push(id.to_string()),
            Err(problem) => return (ids, Some(problem)),
        }
    }
    (ids, None)
}

/// Applies a timeout to a call by dropping the call, as programs do.
async fn within<T>(timeout_ms: Option<u64>, call: impl Future<Output = Result<T, Error>>) -> Result<T, Box<Problem>> {
    let called = match timeout_ms {
        Some(ms) => time::timeout(Duration::from_millis(ms), call).await,
        None => Ok(call.await),
    };
    match called {
        Ok(result) => result.map_err(|error| explain(&error)),
        Err(_) => Err(problem("unavailable", "no identifier within the timeout")),
    }
}

fn problem(kind: &str, message: &str) -> Box<Problem> {
    Box::new(Problem { kind: kind.to_owned(), message: Some(message.to_owned()), ..Problem::default() })
}

fn explain(error: &Error) -> Box<Problem> {
    let message = error.to_string();
    match error {
        Error::Refused { code, status, .. } => of_status("refused", *code, status, message),
        Error::Limited { retry_after, status, .. } => {
            let limited = of_status("limited", status.code(), status, message);
            Box::new(Problem { retry_after_ms: Some(retry_after.as_secs_f64() * 1000.0), ..*limited })
        }
        Error::Unavailable { .. } => problem("unavailable", &message),
        Error::Unusable { .. } => problem("unusable", &message),
        Error::Fenced { .. } => problem("fenced", &message),
        Error::Forked => problem("forked", &message),
        _ => problem("config", &message),
    }
}

fn of_status(kind: &str, code: Code, status: &Status, message: String) -> Box<Problem> {
    let details = status.get_error_details();
    let info = details.error_info();
    let delay = details.retry_info().and_then(|info| info.retry_delay);
    let metadata = info.map(|info| info.metadata.clone().into_iter().collect::<BTreeMap<_, _>>());
    let violations = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
    Box::new(Problem {
        code: Some(codes::name(code)),
        reason: info.map(|info| info.reason.clone()),
        metadata,
        fields: Some(violations.iter().map(|violation| violation.field.clone()).collect()),
        retry_after_ms: delay.map(|delay| delay.as_secs_f64() * 1000.0),
        ..*problem(kind, &message)
    })
}
