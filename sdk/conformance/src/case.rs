//! Plays one case: starts its daemons and the client, and executes the steps.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::Path,
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::time::{self, Instant};

use crate::{
    adapter::{Adapter, Hello},
    certificates::Cas,
    daemon::Daemon,
    expect::Observed,
    ledger::Ledger,
    log::Log,
    script::{Call, Expect, Script, Step},
};

/// The result of a case.
#[derive(Debug)]
pub enum Outcome {
    /// The client did what the script expects. Steps that need a missing ability were skipped.
    Passed {
        /// The missing abilities for which steps were skipped.
        without: Vec<String>,
        /// How long the caller waited in each command whose expectation asks for this.
        stalls: Vec<Duration>,
        /// The conversation, if it was requested.
        conversation: Option<String>,
    },
    /// The client lacks an ability that the case needs.
    Skipped {
        /// The missing abilities.
        missing: Vec<String>,
    },
    /// The case failed.
    Failed {
        /// The problem, in one line.
        reason: String,
        /// The conversation.
        conversation: String,
    },
}

/// Plays a script with a new adapter process. With `verbose`, also returns the conversation of a case that passes.
pub async fn run(script: &Script, command: &[String], verbose: bool) -> Outcome {
    let log = Arc::<Log>::default();
    let limit = Duration::from_secs(script.limit_s);
    let played = time::timeout(limit, play(script, command, &log)).await;
    let played = played.unwrap_or_else(|_| Err(format!("the case did not end within {limit:?}")));
    match (played, log.first_fault()) {
        (Ok(Played::Skipped(missing)), _) => Outcome::Skipped { missing },
        (Ok(Played::Whole { without, stalls }), None) => {
            Outcome::Passed { without, stalls, conversation: verbose.then(|| log.text("    ")) }
        }
        (Ok(Played::Whole { .. }), Some(reason)) | (Err(reason), _) => {
            Outcome::Failed { reason, conversation: log.text("    ") }
        }
    }
}

enum Played {
    /// The client lacks these abilities.
    Skipped(Vec<String>),
    /// All steps were executed, except those that need one of the abilities `without`.
    Whole { without: Vec<String>, stalls: Vec<Duration> },
}

async fn play(script: &Script, command: &[String], log: &Arc<Log>) -> Result<Played, String> {
    let (adapter, hello) = Adapter::start(command, log).await?;
    let missing = lacks(&hello, &script.needs);
    if !missing.is_empty() {
        adapter.end().await?;
        return Ok(Played::Skipped(missing));
    }
    let mut case = Case::new(script, adapter, hello, log).await.map_err(|error| format!("the kit: {error}"))?;
    case.open(script).await.map_err(|problem| format!("open: {problem}"))?;
    for (at, step) in script.steps.iter().enumerate() {
        case.step(step).await.map_err(|problem| format!("step {} ({}): {problem}", at + 1, named(step)))?;
    }
    case.adapter.end().await?;
    Ok(Played::Whole { without: case.without.into_iter().collect(), stalls: case.stalls })
}

fn lacks(hello: &Hello, needs: &[String]) -> Vec<String> {
    needs.iter().filter(|need| !hello.can.contains(need)).cloned().collect()
}

/// Returns a short name of a step, for messages.
fn named(step: &Step) -> String {
    let call = |call: &Call| {
        [Some(call.r#do.as_str()), call.source.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    match step {
        Step::Call(a) => call(a),
        Step::Start(a) => format!("start {}", call(a)),
        Step::Finish(finish) => format!("finish {}", finish.name),
        Step::Answers(answers) => format!("answers of {}", answers.of),
        Step::Die(of) => format!("die {of}"),
        Step::ComeBack(of) => format!("come_back {of}"),
        Step::Await(wait) => format!("await {}", wait.of),
        Step::Calls(calls) => format!("calls of {}", calls.of),
        Step::SleepMs(ms) => format!("sleep {ms} ms"),
        Step::Write(write) => format!("write {}", write.file),
    }
}

/// A case in progress.
struct Case {
    log: Arc<Log>,
    ledger: Arc<Ledger>,
    folder: TempDir,
    daemons: HashMap<String, Daemon>,
    adapter: Adapter,
    hello: Hello,
    /// The commands that were started, with their numbers and times.
    started: HashMap<String, (Call, u64, Instant)>,
    /// The identifiers in the answers to named commands.
    named: HashMap<String, Vec<String>>,
    /// The missing abilities for which steps were skipped.
    without: BTreeSet<String>,
    /// How long the caller waited in each command whose expectation asks for this.
    stalls: Vec<Duration>,
}

impl Case {
    async fn new(script: &Script, adapter: Adapter, hello: Hello, log: &Arc<Log>) -> io::Result<Self> {
        let (folder, ledger) = (TempDir::new()?, Arc::<Ledger>::default());
        let cas = Cas::new(folder.path())?;
        for (name, text) in &script.files {
            fs::write(folder.path().join(name), text)?;
        }
        let mut daemons = HashMap::new();
        for spec in &script.daemons {
            daemons.insert(spec.name.clone(), Daemon::start(spec, &cas, log, &ledger).await?);
        }
        Ok(Self {
            log: log.clone(),
            ledger,
            folder,
            daemons,
            adapter,
            hello,
            started: HashMap::new(),
            named: HashMap::new(),
            without: BTreeSet::new(),
            stalls: Vec::new(),
        })
    }

    async fn open(&mut self, script: &Script) -> Result<(), String> {
        let mut open = script.open.clone();
        for file in [&mut open.ca, &mut open.cert, &mut open.key, &mut open.token_file].into_iter().flatten() {
            *file = self.folder.path().join(&*file).display().to_string();
        }
        let mut command = serde_json::to_value(&open).map_err(|error| error.to_string())?;
        let all = || script.daemons.iter().map(|daemon| daemon.name.clone()).collect();
        let names: Vec<String> = open.endpoints.clone().unwrap_or_else(all);
        let endpoints =
            names.iter().map(|name| Ok(self.daemon(name)?.endpoint())).collect::<Result<Vec<_>, String>>()?;
        command["do"] = "open".into();
        command["endpoints"] = endpoints.into();
        let id = self.adapter.send(command).await?;
        let sent = Instant::now();
        let call = Call { r#do: "close".to_owned(), ..Call::default() };
        self.receive(&call, id, sent, &script.opens).await
    }

    fn daemon(&mut self, name: &str) -> Result<&mut Daemon, String> {
        self.daemons.get_mut(name).ok_or_else(|| format!("there is no daemon {name:?}"))
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Call(call) => {
                if let Some(id) = self.send(call).await? {
                    self.receive(call, id, Instant::now(), &call.expect).await?;
                }
            }
            Step::Start(call) => {
                let name = call.name.clone().unwrap_or_default();
                if let Some(id) = self.send(call).await? {
                    self.started.insert(name, (call.clone(), id, Instant::now()));
                }
            }
            // If no command with this name was started, its step was skipped.
            Step::Finish(finish) => {
                if let Some((call, id, sent)) = self.started.remove(&finish.name) {
                    self.receive(&call, id, sent, &finish.expect).await?;
                }
            }
            Step::Answers(answers) => self.daemon(&answers.of)?.played.answer(&answers.answers, &answers.then),
            Step::Die(of) => self.daemon(of)?.die().await,
            Step::ComeBack(of) => self.daemon(of)?.come_back().await.map_err(|error| error.to_string())?,
            Step::Await(wait) => {
                let mut called = self.daemon(&wait.of)?.played.called.subscribe();
                // OK because the sender lives as long as the daemon.
                let _ = called.wait_for(|calls| *calls >= wait.calls).await;
            }
            Step::Calls(calls) => {
                let got = self.daemon(&calls.of)?.played.calls(calls.source.as_deref());
                let most = calls.at_most.unwrap_or(usize::MAX);
                if !(calls.at_least..=most).contains(&got) {
                    let most = calls.at_most.map_or_else(|| "more".to_owned(), |most| most.to_string());
                    return Err(format!(
                        "{} was called {got} times, but must be {} to {most}",
                        calls.of, calls.at_least
                    ));
                }
            }
            Step::SleepMs(ms) => time::sleep(Duration::from_millis(*ms)).await,
            Step::Write(write) => {
                self.log.say("kit", &format!("writes the file {}", write.file));
                replace(&self.folder.path().join(&write.file), &write.text).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Sends a command. Returns its number, or `None` if the client lacks an ability that the step needs.
    async fn send(&mut self, call: &Call) -> Result<Option<u64>, String> {
        let missing = lacks(&self.hello, &call.needs);
        if !missing.is_empty() {
            self.log.say("kit", &format!("leaves out {}: the client cannot {}", call.r#do, missing.join(", ")));
            self.without.extend(missing);
            return Ok(None);
        }
        let mut command = Map::new();
        command.insert("do".to_owned(), json!(call.r#do));
        for (member, value) in [
            ("source", call.source.as_ref().map(|source| json!(source))),
            ("count", call.count.map(|count| json!(count))),
            ("threads", call.threads.map(|threads| json!(threads))),
            ("timeout_ms", call.timeout_ms.map(|timeout| json!(timeout))),
            ("request_id", call.request_id.as_ref().map(|id| json!(id))),
        ] {
            command.extend(value.map(|value| (member.to_owned(), value)));
        }
        self.adapter.send(Value::Object(command)).await.map(Some)
    }

    /// Waits for an answer, and compares it with the expectation and the ledger.
    async fn receive(&mut self, call: &Call, id: u64, sent: Instant, expect: &Expect) -> Result<(), String> {
        let (answered, arrived) = self.adapter.answer(id).await?;
        let ids = answered.ids.clone().unwrap_or_default();
        let source = call.source.as_deref().unwrap_or_default();
        let repeat = call.request_id.as_deref().unwrap_or_default();
        let labels = self.ledger.returned(source, &ids, repeat).map_err(|error| error.to_string())?;
        let same_as = match &expect.same_as {
            Some(name) => Some(self.named.get(name).cloned().ok_or_else(|| format!("no answer to {name:?} yet"))?),
            None => None,
        };
        let took = arrived.saturating_duration_since(sent);
        if expect.stall {
            self.stalls.push(took);
        }
        Observed { answered: &answered, labels: &labels, took, same_as }.check(call, expect)?;
        if let Some(name) = &call.name {
            self.named.insert(name.clone(), ids);
        }
        Ok(())
    }
}

/// Replaces a file atomically: readers see either the old or the new text.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}
