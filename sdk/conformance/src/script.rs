//! The format of scripts, with one case per JSON file. `README.md` describes every member.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One case: the daemons, the client's settings, and the steps with the expected result of each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The name, which is also the name of the file.
    pub name: String,
    /// The behavior that a client must have, in one sentence.
    pub about: String,
    /// The abilities that the client must have, such as `threads`. Without them, the case is skipped.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The maximum duration of the case in seconds.
    #[serde(default = "limit_s")]
    pub limit_s: u64,
    /// Files in the case's directory, with their contents.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The settings of the client.
    #[serde(default)]
    pub open: Open,
    /// The expected result of the command `open`.
    #[serde(default)]
    pub opens: Expect,
    /// The daemons, in the order of the client's endpoints.
    pub daemons: Vec<DaemonSpec>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

fn limit_s() -> u64 {
    60
}

/// The settings of a client. Omitted settings have the client's defaults, except for the timeouts: the first call in a
/// language runtime that has just started can take longer than the default timeout of an attempt.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "README.md describes the settings")]
pub struct Open {
    /// The names of the daemons to use, instead of all.
    #[serde(skip_serializing)]
    pub endpoints: Option<Vec<String>>,
    #[serde(default = "attempt_timeout_ms")]
    pub attempt_timeout_ms: u64,
    #[serde(default = "request_timeout_ms")]
    pub request_timeout_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_heirs: Option<bool>,
    /// The name of a file in the case's directory, like `cert`, `key` and `token_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
}

impl Default for Open {
    fn default() -> Self {
        Self {
            endpoints: None,
            attempt_timeout_ms: attempt_timeout_ms(),
            request_timeout_ms: request_timeout_ms(),
            block_size: None,
            block_size_max: None,
            low_water: None,
            max_age_ms: None,
            follow_heirs: None,
            ca: None,
            cert: None,
            key: None,
            token: None,
            token_file: None,
        }
    }
}

fn attempt_timeout_ms() -> u64 {
    20_000
}

fn request_timeout_ms() -> u64 {
    40_000
}

/// A daemon that the kit simulates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonSpec {
    /// The name in the script. It is also the label of the daemon's grants.
    pub name: String,
    /// Whether the daemon is down at first.
    #[serde(default)]
    pub down: bool,
    /// The certificates, if the daemon uses TLS.
    pub tls: Option<TlsSpec>,
    /// The only token that the daemon accepts.
    pub token: Option<String>,
    /// The answers to the first calls, in order.
    #[serde(default)]
    pub answers: Vec<Answer>,
    /// The answer to all later calls: a grant, unless the script says otherwise.
    #[serde(default)]
    pub then: Answer,
}

/// The certificate of a daemon.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    /// The name in the certificate.
    #[serde(default = "localhost")]
    pub name: String,
    /// The CA that signed the certificate: `ca` or `other`.
    #[serde(default = "ca")]
    pub ca: String,
    /// Whether callers need a certificate signed by the CA `ca`.
    #[serde(default)]
    pub client_cert: bool,
}

fn localhost() -> String {
    "localhost".to_owned()
}

fn ca() -> String {
    "ca".to_owned()
}

/// A daemon's answer to a call: `grant`, `refuse` or `does`, or, without these members, a plain grant.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Limits the answer to calls for this source. A call gets the first answer that applies to it.
    pub source: Option<String>,
    /// The number of calls that get this answer, by default 1.
    pub times: Option<u32>,
    /// The pause before the answer.
    #[serde(default)]
    pub delay_ms: u64,
    /// The time after the answer during which no other call may arrive at this daemon.
    #[serde(default)]
    pub quiet_ms: u64,
    /// A grant that differs from a plain one.
    pub grant: Option<Grant>,
    /// A refusal.
    pub refuse: Option<Refuse>,
    /// A fault of the daemon.
    pub does: Option<Does>,
}

/// A grant. All members are optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The label of the grant's identifiers in expectations, by default the daemon's name.
    pub label: Option<String>,
    /// The first position, instead of the next position of the case.
    pub first: Option<u64>,
    /// The number of identifiers, instead of the requested number.
    pub count: Option<u64>,
    /// The fencing token.
    pub token: Option<u64>,
    /// The number of the slot or region to which the token belongs.
    pub subject: Option<u64>,
    /// The number of clock steps that the daemon reports.
    #[serde(default)]
    pub clock_epoch: u64,
}

/// A refusal: a status with details.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {
    /// The name of the gRPC code, such as `FAILED_PRECONDITION`.
    pub code: String,
    /// The machine-readable reason. Without a reason, the status has no `ErrorInfo`.
    pub reason: Option<String>,
    /// The metadata of the reason.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// The request fields that are wrong.
    #[serde(default)]
    pub fields: Vec<String>,
    /// The delay of `RetryInfo`.
    pub retry_after_ms: Option<u64>,
    /// The human-readable message.
    #[serde(default = "scripted")]
    pub message: String,
}

fn scripted() -> String {
    "scripted".to_owned()
}

/// A fault of a daemon, instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Grants, but the connection breaks before the reply.
    Lose,
    /// Breaks the connection before granting.
    Drop,
    /// Never answers.
    Hang,
    /// Stops listening and breaks all connections before granting.
    Die,
    /// Replies without identifiers.
    Empty,
    /// Replies with packed identifiers whose length in bytes is not a multiple of their width, or with a lease that has
    /// no constants.
    Ragged,
}

/// One step. The next step starts when this step is done.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Sends a command and waits for its answer.
    Call(Call),
    /// Sends a command under a name and does not wait.
    Start(Call),
    /// Waits for the answer to a command that was started.
    Finish(Finish),
    /// Replaces the answers of a daemon.
    Answers(Answers),
    /// A daemon stops listening, and its connections break.
    Die(String),
    /// A daemon listens again, on its old port.
    ComeBack(String),
    /// Waits until a daemon has received this many calls.
    Await(Await),
    /// Checks the number of calls that a daemon has received.
    Calls(Calls),
    /// Waits.
    SleepMs(u64),
    /// Writes a file in the case's directory.
    Write(WriteFile),
}

/// A command for the client, and the expected answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The command.
    pub r#do: String,
    /// The name under which `finish` and `same_as` find the answer.
    pub name: Option<String>,
    /// The abilities that only this step needs. Without them, the step is skipped.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The source.
    pub source: Option<String>,
    /// The number of identifiers for each thread.
    pub count: Option<u64>,
    /// The number of threads.
    pub threads: Option<u64>,
    /// The timeout of each call.
    pub timeout_ms: Option<u64>,
    /// The request ID of `fetch`.
    pub request_id: Option<String>,
    /// The expected result, by default the requested number of identifiers.
    #[serde(default)]
    pub expect: Expect,
}

/// Waits for the answer to an earlier command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// The name of the command.
    pub name: String,
    /// The expected result.
    #[serde(default)]
    pub expect: Expect,
}

/// Replaces the answers of a daemon.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// The daemon.
    pub of: String,
    /// The answers to the next calls.
    #[serde(default)]
    pub answers: Vec<Answer>,
    /// The answer to all later calls.
    #[serde(default)]
    pub then: Answer,
}

/// Waits for calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Await {
    /// The daemon.
    pub of: String,
    /// The number of calls since the start of the case.
    pub calls: usize,
}

/// Checks the number of calls since the start of the case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// The daemon.
    pub of: String,
    /// Counts only calls for this source.
    pub source: Option<String>,
    /// The minimum number of calls.
    #[serde(default)]
    pub at_least: usize,
    /// The maximum number of calls.
    pub at_most: Option<usize>,
}

/// Writes a file in the case's directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// The name of the file.
    pub file: String,
    /// The text of the file.
    pub text: String,
}

/// The expected result of a command. Without members: success, and the requested number of identifiers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The exact identifiers.
    pub equals: Option<Vec<String>>,
    /// The minimum and the maximum number of identifiers, instead of the requested number.
    pub between: Option<(usize, usize)>,
    /// The labels of the grants from which the identifiers may come.
    pub from: Option<Vec<String>>,
    /// Whether each identifier must be greater than the previous one.
    #[serde(default)]
    pub ascend: bool,
    /// The name of a command whose answer must have the same identifiers.
    pub same_as: Option<String>,
    /// The error.
    pub error: Option<ErrorExpect>,
    /// The time within which the answer must arrive. Use a generous value.
    pub within_ms: Option<u64>,
    /// The time before which the answer must not arrive.
    pub after_ms: Option<u64>,
    /// Whether to print how long the caller waited.
    #[serde(default)]
    pub stall: bool,
    /// An alternative result.
    pub or: Option<Box<Expect>>,
}

/// The error that a client must report. Omitted members are not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorExpect {
    /// The allowed kinds.
    #[serde(default)]
    pub kind: Vec<String>,
    /// The gRPC code.
    pub code: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// Metadata that the error must have.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// The names of the request fields that are wrong.
    pub fields: Option<Vec<String>>,
    /// The delay in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// A substring of the message.
    pub message: Option<String>,
}
