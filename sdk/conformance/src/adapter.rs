//! The client under test: a process that reads commands and writes answers, one JSON object per line.

use std::{collections::HashMap, io, process::Stdio, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinSet,
    time::{self, Instant},
};

use crate::{expect::Answered, log::Log};

/// The language and the abilities of the client under test.
#[derive(Clone, Debug, Deserialize)]
pub struct Hello {
    /// The client's language.
    pub language: String,
    /// The abilities that the client supports.
    pub can: Vec<String>,
}

/// A running adapter. Dropping this value ends its processes.
pub(crate) struct Adapter {
    log: Arc<Log>,
    child: Child,
    input: Option<ChildStdin>,
    output: tokio::io::Lines<BufReader<ChildStdout>>,
    /// Answers that arrived while the kit waited for another answer, with their times of arrival.
    arrived: HashMap<u64, (Answered, Instant)>,
    sent: u64,
    _errors: JoinSet<()>,
}

/// The time within which an adapter must exit after the end of its input.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

impl Adapter {
    /// Starts the program, and waits for its `hello` message.
    pub(crate) async fn start(command: &[String], log: &Arc<Log>) -> Result<(Self, Hello), String> {
        let (program, arguments) = command.split_first().ok_or("there is no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("the adapter has no standard output")?;
        let errors = child.stderr.take().ok_or("the adapter has no standard error")?;
        let mut reading = JoinSet::new();
        let errors_to = log.clone();
        reading.spawn(async move {
            let mut lines = BufReader::new(errors).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                errors_to.say("standard error", &line);
            }
        });
        let output = BufReader::new(output).lines();
        let (log, arrived) = (log.clone(), HashMap::new());
        let mut adapter = Self { log, child, input, output, arrived, sent: 0, _errors: reading };
        #[derive(Deserialize)]
        struct First {
            hello: Hello,
        }
        let line = adapter.line().await?;
        let first: First = serde_json::from_str(&line)
            .map_err(|error| format!("the first line is not a `hello` message: {error}: {line}"))?;
        Ok((adapter, first.hello))
    }

    /// Sends a command. Returns its number.
    pub(crate) async fn send(&mut self, mut command: Value) -> Result<u64, String> {
        self.sent += 1;
        command["id"] = self.sent.into();
        let line = format!("{command}\n");
        self.log.say("kit", &line);
        let input = self.input.as_mut().ok_or("the input has ended")?;
        let gone = |error: io::Error| format!("the adapter no longer reads commands: {error}");
        input.write_all(line.as_bytes()).await.map_err(gone)?;
        input.flush().await.map_err(gone)?;
        Ok(self.sent)
    }

    /// Waits for the answer to a command. Returns the answer, and the time at which it arrived.
    pub(crate) async fn answer(&mut self, id: u64) -> Result<(Answered, Instant), String> {
        loop {
            if let Some(found) = self.arrived.remove(&id) {
                return Ok(found);
            }
            let line = self.line().await?;
            let answered: Answered =
                serde_json::from_str(&line).map_err(|error| format!("an answer cannot be read: {error}"))?;
            if answered.id == 0 || answered.id > self.sent {
                return Err(format!("an answer has the number {}, which no command has", answered.id));
            }
            if self.arrived.insert(answered.id, (answered.clone(), Instant::now())).is_some() {
                return Err(format!("command {} has two answers", answered.id));
            }
        }
    }

    /// Closes the input, and waits until the adapter exits.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        drop(self.input.take());
        while let Ok(Some(line)) = time::timeout(ENDS_WITHIN, self.output.next_line())
            .await
            .map_err(|_| "the adapter did not end after the end of its input".to_owned())?
        {
            self.log.say("client", &line);
        }
        let status = time::timeout(ENDS_WITHIN, self.child.wait()).await;
        let status = status.map_err(|_| "the adapter closed its output, but did not end".to_owned())?;
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the adapter ended with {status}")),
            Err(error) => Err(format!("cannot wait for the adapter to exit: {error}")),
        }
    }

    async fn line(&mut self) -> Result<String, String> {
        match self.output.next_line().await {
            Ok(Some(line)) => {
                self.log.say("client", &line);
                Ok(line)
            }
            Ok(None) => Err("the adapter closed its output".to_owned()),
            Err(error) => Err(format!("the adapter's output cannot be read: {error}")),
        }
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // An adapter may be a script that has started the client, so kill the process group, which contains only this
        // adapter's processes.
        if let Some(group) =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            // OK because the signal fails only if the group has already ended.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}
