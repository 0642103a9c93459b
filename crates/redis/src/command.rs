//! The commands, read from the parts of a request.

use std::{fmt, num::NonZeroU64};

use bytes::Bytes;
use thiserror::Error;

use crate::reply::Version;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `INCR key` or `INCRBY key n`.
    Increment { key: String, count: NonZeroU64 },
    /// `GET key`.
    Get { key: String },
    /// `TIME`.
    Time,
    /// `PING` or `PING text`.
    Ping(Option<Bytes>),
    /// `ECHO text`.
    Echo(Bytes),
    /// `AUTH token` or `AUTH default token`.
    Auth(Secret),
    /// `HELLO [version [AUTH default token] [SETNAME name]]`.
    Hello { version: Option<Version>, token: Option<Secret>, name: Option<Bytes> },
    /// `SELECT 0`.
    Select,
    /// `CLIENT ID`.
    ClientId,
    /// `CLIENT GETNAME`.
    ClientName,
    /// `CLIENT SETNAME name`.
    SetClientName(Bytes),
    /// `CLIENT SETINFO attribute value`. Libraries send their names at the beginning of a connection.
    SetClientInfo,
    /// `COMMAND` and its subcommands. `redis-cli` asks for the descriptions of commands.
    Describe,
    /// `CONFIG GET parameter`, for `redis-benchmark`.
    GetConfig(Vec<Bytes>),
    /// `QUIT`.
    Quit,
    /// `RESET`.
    Reset,
}

/// A token, which must not be logged.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) Bytes);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why a request is not a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum BadCommand {
    /// The port has no such command.
    #[error(
        "ERR unknown command '{0}': this port has INCR, INCRBY, GET, TIME, PING, ECHO, AUTH, HELLO, SELECT, CLIENT, QUIT and RESET"
    )]
    Unknown(String),
    /// The command has another number of arguments.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arguments(&'static str),
    /// The command has no such subcommand or option.
    #[error("ERR unknown subcommand or option '{option}' of '{command}'")]
    Option {
        /// The command.
        command: &'static str,
        /// The option.
        option: String,
    },
    /// The argument is not a 64-bit number.
    #[error("ERR value is not an integer or out of range")]
    NotANumber,
    /// The step of a counter is not positive.
    #[error("ERR identifiers only ascend: INCRBY takes a number of identifiers, 1 or more")]
    NotPositive,
    /// The name of a region is not text.
    #[error("ERR a key is the name of a region, such as orders or orders@parts, in UTF-8")]
    BadKey,
    /// There is only one database.
    #[error(
        "ERR DB index is out of range: there is only database 0; write orders@parts for the region orders of space parts"
    )]
    OtherDatabase,
    /// The version of the protocol is unknown.
    #[error("NOPROTO unsupported protocol version: 2 and 3 are supported")]
    BadVersion,
    /// A user name other than `default`.
    #[error("WRONGPASS a token needs no user name: send AUTH TOKEN, or the user name default")]
    NamedUser,
}

impl Command {
    /// Reads the parts of a request. Names of commands and options may be in any case.
    ///
    /// # Errors
    ///
    /// [`BadCommand`].
    pub(crate) fn read(parts: &[Bytes]) -> Result<Self, BadCommand> {
        let Some((name, arguments)) = parts.split_first() else { return Err(BadCommand::Unknown(String::new())) };
        match (&*name.to_ascii_lowercase(), arguments) {
            (b"incr", [key]) => Ok(Self::Increment { key: text(key)?, count: NonZeroU64::MIN }),
            (b"incr", _) => Err(BadCommand::Arguments("incr")),
            (b"incrby", [key, count]) => Ok(Self::Increment { key: text(key)?, count: positive(count)? }),
            (b"incrby", _) => Err(BadCommand::Arguments("incrby")),
            (b"get", [key]) => Ok(Self::Get { key: text(key)? }),
            (b"get", _) => Err(BadCommand::Arguments("get")),
            (b"time", []) => Ok(Self::Time),
            (b"time", _) => Err(BadCommand::Arguments("time")),
            (b"ping", []) => Ok(Self::Ping(None)),
            (b"ping", [text]) => Ok(Self::Ping(Some(text.clone()))),
            (b"ping", _) => Err(BadCommand::Arguments("ping")),
            (b"echo", [text]) => Ok(Self::Echo(text.clone())),
            (b"echo", _) => Err(BadCommand::Arguments("echo")),
            (b"auth", [token]) => Ok(Self::Auth(Secret(token.clone()))),
            (b"auth", [user, token]) => Ok(Self::Auth(of_user(user, token)?)),
            (b"auth", _) => Err(BadCommand::Arguments("auth")),
            (b"hello", arguments) => hello(arguments),
            (b"select", [index]) => match number(index)? {
                0 => Ok(Self::Select),
                _ => Err(BadCommand::OtherDatabase),
            },
            (b"select", _) => Err(BadCommand::Arguments("select")),
            (b"client", arguments) => client(arguments),
            (b"command", _) => Ok(Self::Describe),
            (b"config", [verb, names @ ..]) if verb.eq_ignore_ascii_case(b"get") && !names.is_empty() => {
                Ok(Self::GetConfig(names.to_vec()))
            }
            (b"config", arguments) => Err(other_option("config", arguments)),
            (b"quit", _) => Ok(Self::Quit),
            (b"reset", []) => Ok(Self::Reset),
            (b"reset", _) => Err(BadCommand::Arguments("reset")),
            _ => Err(BadCommand::Unknown(shown(name))),
        }
    }

    /// The method of the command in the audit log.
    pub(crate) const fn method(&self) -> &'static str {
        match self {
            Self::Increment { .. } => "redis INCR",
            Self::Get { .. } => "redis GET",
            Self::Time => "redis TIME",
            Self::Ping(_) => "redis PING",
            Self::Echo(_) => "redis ECHO",
            Self::Auth(_) => "redis AUTH",
            Self::Hello { .. } => "redis HELLO",
            Self::Select => "redis SELECT",
            Self::ClientId | Self::ClientName | Self::SetClientName(_) | Self::SetClientInfo => "redis CLIENT",
            Self::Describe => "redis COMMAND",
            Self::GetConfig(_) => "redis CONFIG",
            Self::Quit => "redis QUIT",
            Self::Reset => "redis RESET",
        }
    }
}

fn hello(arguments: &[Bytes]) -> Result<Command, BadCommand> {
    let (version, mut options) = match arguments.split_first() {
        None => (None, arguments),
        Some((version, options)) => match &**version {
            b"2" => (Some(Version::Two), options),
            b"3" => (Some(Version::Three), options),
            _ => return Err(BadCommand::BadVersion),
        },
    };
    let (mut token, mut name) = (None, None);
    loop {
        options = match options {
            [] => return Ok(Command::Hello { version, token, name }),
            [auth, user, secret, rest @ ..] if auth.eq_ignore_ascii_case(b"auth") => {
                token = Some(of_user(user, secret)?);
                rest
            }
            [setname, given, rest @ ..] if setname.eq_ignore_ascii_case(b"setname") => {
                name = Some(given.clone());
                rest
            }
            other => return Err(other_option("hello", other)),
        };
    }
}

fn client(arguments: &[Bytes]) -> Result<Command, BadCommand> {
    let Some((verb, rest)) = arguments.split_first() else { return Err(BadCommand::Arguments("client")) };
    match (&*verb.to_ascii_lowercase(), rest) {
        (b"id", []) => Ok(Command::ClientId),
        (b"getname", []) => Ok(Command::ClientName),
        (b"setname", [name]) => Ok(Command::SetClientName(name.clone())),
        (b"setinfo", [_, _]) => Ok(Command::SetClientInfo),
        _ => Err(other_option("client", arguments)),
    }
}

fn other_option(command: &'static str, arguments: &[Bytes]) -> BadCommand {
    match arguments.first() {
        None => BadCommand::Arguments(command),
        Some(option) => BadCommand::Option { command, option: shown(option) },
    }
}

/// A token is a credential of its own, so a user name would only seem to have an effect.
fn of_user(user: &[u8], token: &Bytes) -> Result<Secret, BadCommand> {
    if user == b"default" { Ok(Secret(token.clone())) } else { Err(BadCommand::NamedUser) }
}

fn text(bytes: &[u8]) -> Result<String, BadCommand> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| BadCommand::BadKey)
}

fn number(digits: &[u8]) -> Result<i64, BadCommand> {
    let parsed = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    parsed.ok_or(BadCommand::NotANumber)
}

fn positive(digits: &[u8]) -> Result<NonZeroU64, BadCommand> {
    let count = u64::try_from(number(digits)?).ok().and_then(NonZeroU64::new);
    count.ok_or(BadCommand::NotPositive)
}

/// The beginning of a word, for a message.
fn shown(word: &[u8]) -> String {
    const CHARS_MAX: usize = 64;
    String::from_utf8_lossy(word).chars().take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, BadCommand> {
        let parts = line.split_whitespace().map(|part| Bytes::copy_from_slice(part.as_bytes()));
        Command::read(&parts.collect::<Vec<_>>())
    }

    fn increment(key: &str, count: u64) -> Command {
        Command::Increment { key: key.to_owned(), count: NonZeroU64::new(count).expect("positive") }
    }

    #[test]
    fn ok_commands() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let secret = |text| Secret(bytes(text));
        let hello = |version, token, name| Command::Hello { version, token, name };
        for (line, expected) in [
            ("INCR orders", increment("orders", 1)),
            ("iNcR orders@parts", increment("orders@parts", 1)),
            ("INCRBY orders 1", increment("orders", 1)),
            ("INCRBY orders 9223372036854775807", increment("orders", i64::MAX as u64)),
            ("GET orders", Command::Get { key: "orders".to_owned() }),
            ("TIME", Command::Time),
            ("PING", Command::Ping(None)),
            ("PING a", Command::Ping(Some(bytes("a")))),
            ("ECHO a", Command::Echo(bytes("a"))),
            ("AUTH t", Command::Auth(secret("t"))),
            ("AUTH default t", Command::Auth(secret("t"))),
            ("HELLO", hello(None, None, None)),
            ("HELLO 2", hello(Some(Version::Two), None, None)),
            ("HELLO 3 SETNAME n AUTH default t", hello(Some(Version::Three), Some(secret("t")), Some(bytes("n")))),
            ("SELECT 0", Command::Select),
            ("CLIENT ID", Command::ClientId),
            ("CLIENT GETNAME", Command::ClientName),
            ("CLIENT SETNAME n", Command::SetClientName(bytes("n"))),
            ("CLIENT SETINFO LIB-NAME redis-py", Command::SetClientInfo),
            ("COMMAND", Command::Describe),
            ("COMMAND DOCS incr", Command::Describe),
            ("CONFIG GET save", Command::GetConfig(vec![bytes("save")])),
            ("QUIT", Command::Quit),
            ("RESET", Command::Reset),
        ] {
            assert_eq!(read(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn err_other_commands() {
        for (line, expected) in [
            ("", "ERR unknown command ''"),
            ("SET a 1", "ERR unknown command 'SET'"),
            ("DECR a", "ERR unknown command 'DECR'"),
            ("INCR", "ERR wrong number of arguments for 'incr' command"),
            ("INCR a b", "ERR wrong number of arguments for 'incr' command"),
            ("INCRBY a", "ERR wrong number of arguments for 'incrby' command"),
            ("INCRBY a 0", "ERR identifiers only ascend"),
            ("INCRBY a -1", "ERR identifiers only ascend"),
            ("INCRBY a 1.5", "ERR value is not an integer or out of range"),
            ("INCRBY a 9223372036854775808", "ERR value is not an integer or out of range"),
            ("GET", "ERR wrong number of arguments for 'get' command"),
            ("TIME a", "ERR wrong number of arguments"),
            ("PING a b", "ERR wrong number of arguments"),
            ("ECHO", "ERR wrong number of arguments"),
            ("AUTH", "ERR wrong number of arguments"),
            ("AUTH ann t", "WRONGPASS "),
            ("HELLO 4", "NOPROTO "),
            ("HELLO x", "NOPROTO "),
            ("HELLO 3 AUTH default", "ERR unknown subcommand or option 'AUTH' of 'hello'"),
            ("HELLO 3 AUTH ann t", "WRONGPASS "),
            ("SELECT 1", "ERR DB index is out of range"),
            ("SELECT a", "ERR value is not an integer"),
            ("CLIENT", "ERR wrong number of arguments"),
            ("CLIENT LIST", "ERR unknown subcommand or option 'LIST' of 'client'"),
            ("CONFIG SET save 1", "ERR unknown subcommand or option 'SET' of 'config'"),
            ("CONFIG GET", "ERR unknown subcommand or option 'GET' of 'config'"),
            ("RESET a", "ERR wrong number of arguments"),
        ] {
            let error = read(line).expect_err("refused").to_string();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
        let binary = [Bytes::from_static(b"INCR"), Bytes::from_static(b"\xff")];
        assert_eq!(Command::read(&binary), Err(BadCommand::BadKey));
        assert!(!format!("{:?}", read("AUTH kent_secret")).contains("kent_secret"));
    }
}
