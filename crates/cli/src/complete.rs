//! Shell completion, including the names of regions, spaces, series, layouts and contexts.
//!
//! The script that `kent completions SHELL` prints makes the shell run `kent` with the environment variable
//! [`VARIABLE`] and the words of the command line. The answer lists the possible words at the cursor. Names among them
//! come from the daemon that the command line selects.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, Command, FromArgMatches, ValueHint};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{self as shells, CompleteEnv, EnvCompleter, Shells};
use kent_access::Action;
use kent_client::tonic::{Request, Status};
use kent_client::{Client, Daemon};
use kent_ids::{
    DEFAULT_SPACE, Format,
    layout::{Digits, Preset},
};
use kent_proto::v1::{ListLayoutsRequest, ListRegionsRequest, ListSeriesRequest, ListSpacesRequest};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::access;
use crate::connect::{Credentials, Endpoints};
use crate::contexts::Contexts;
use crate::failure::Failure;
use crate::names;
use crate::request;
use crate::settings;

/// The variable that names the shell in a request for a completion.
const VARIABLE: &str = "KENT_COMPLETE";

/// The time limit for the names from the daemon: a shell that hangs is worse than a completion without names.
const TIME: Duration = Duration::from_millis(300);

/// The maximum number of names in an answer.
const NAMES_MAX: usize = 1000;

/// The maximum number of regions or spaces per page.
const PAGE_SIZE: u32 = 1000;

const SHELLS: Shells<'static> = Shells(&[&Bash, &shells::Zsh, &shells::Fish, &shells::Elvish, &shells::Powershell]);

/// Answers a shell that requests a completion, or returns `None` for an ordinary command line.
pub(crate) fn answer(line: &[OsString]) -> Option<ExitCode> {
    let complete = CompleteEnv::with_factory(command).var(VARIABLE).bin("kent").completer("kent").shells(SHELLS);
    match complete.try_complete(line, env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        // A message on standard error would appear in the command line that the user is typing.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Prints the script for a shell.
pub(crate) fn print_script(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    if let Some(completer) = SHELLS.completer(&shell.to_string()) {
        completer.write_registration(VARIABLE, "kent", "kent", "kent", &mut script).map_err(Failure::Output)?;
    }
    io::stdout().write_all(&script).and_then(|()| io::stdout().flush()).map_err(Failure::Output)
}

/// Bash, with our own script. The script of `clap_complete` 4.6 passes the words as bash splits them, at each `:`, `@`
/// and `=`, so it does not complete `region:NAME` and `--space=NAME`.
struct Bash;

const BASH_SCRIPT: &str = r#"_kent() {
    # Bash splits words also at COMP_WORDBREAKS, such as : and @ and =. Join the parts again, up to the cursor.
    local line=${COMP_LINE:0:COMP_POINT} words=() n=0 i gap part
    for ((i = 0; i <= COMP_CWORD; i++)); do
        gap=${line%%[![:space:]]*}
        line=${line#"$gap"}
        if ((i < COMP_CWORD)); then part=${COMP_WORDS[i]}; else part=$line; fi
        line=${line#"$part"}
        if [[ n -gt 0 && -z $gap ]]; then words[n-1]+=$part; else words[n++]=$part; fi
    done
    local IFS=$'\n'
    COMPREPLY=($(VARIABLE=bash _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((n - 1)) kent -- "${words[@]}" 2>/dev/null))
    local breaks=${COMP_WORDBREAKS//[!:@=]/} word=${words[n-1]} names=()
    # Options are shown once a hyphen is typed, or if nothing else fits.
    if [[ -z $word ]]; then
        for part in "${COMPREPLY[@]}"; do [[ $part == -* ]] || names+=("$part"); done
        if [[ ${#names[@]} -gt 0 ]]; then COMPREPLY=("${names[@]}"); fi
    fi
    # Bash replaces only what follows the last of these characters.
    if [[ -n $breaks && $word == *[$breaks]* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*[$breaks]}"}"}")
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:@/] ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o nosort -F _kent kent 2>/dev/null || complete -F _kent kent
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        _: &str,
        _: &str,
        _: &str,
        script: &mut dyn Write,
    ) -> Result<(), io::Error> {
        script.write_all(BASH_SCRIPT.replace("VARIABLE", variable).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn Write,
    ) -> Result<(), io::Error> {
        shells::Bash.write_complete(command, words, folder, answer)
    }
}

/// The kind of thing that the value of an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Region,
    Space,
    Series,
    Layout,
    Preset,
    /// The text form of a layout.
    Spelling,
    /// A format in which to read identifiers.
    Format,
    Source,
    Context,
    Token,
    Request,
    Role,
    /// A role or a token.
    Holder,
    Permission,
}

impl Named {
    /// Returns the kind of thing that an argument of a command names, or `None` if the argument does not name an
    /// existing thing. `group` is the parent of the command.
    fn by(group: &str, command: &str, argument: &str) -> Option<Self> {
        match (group, command, argument) {
            (_, "create" | "ask", "name" | "series") => None,
            ("request", _, "id") => Some(Self::Request),
            ("request", _, "name") => None,
            (_, "alloc", "source") => Some(Self::Source),
            ("region", _, "name") | (_, _, "split_donor") => Some(Self::Region),
            ("space", _, "name") | (_, _, "space") => Some(Self::Space),
            ("series", _, "series") => Some(Self::Series),
            ("layout", _, "name") => Some(Self::Layout),
            (_, "inspect" | "check", "format") => Some(Self::Format),
            ("layout", _, "preset") => Some(Self::Preset),
            ("layout", _, "text") => Some(Self::Spelling),
            ("token", _, "id" | "ids") => Some(Self::Token),
            ("role", _, "name") | (_, _, "roles") => Some(Self::Role),
            ("budget", _, "holder") => Some(Self::Holder),
            ("token" | "role", _, "permissions") => Some(Self::Permission),
            ("context", _, "name") | (_, _, "context") => Some(Self::Context),
            _ => None,
        }
    }
}

/// Returns the definition of the command line, with completers for the names.
fn command() -> Command {
    attach(settings::command(None), "")
}

fn attach(command: Command, group: &str) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| match Named::by(group, &name, arg.get_id().as_str()) {
        Some(named) => arg.add(ArgValueCompleter::new(move |typed: &OsStr| candidates(named, typed))),
        None if ["file", "files", "floors", "out", "temp_dir", "token_file"].contains(&arg.get_id().as_str()) => {
            arg.value_hint(ValueHint::FilePath)
        }
        None => arg,
    });
    command.mut_subcommands(|inner| attach(inner, &name))
}

/// Returns the names that begin with the typed text.
fn candidates(named: Named, typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let names = match named {
        Named::Context => contexts(),
        _ => ask(named, typed).unwrap_or_default(),
    };
    names.into_iter().filter(|name| name.starts_with(typed)).map(CompletionCandidate::new).collect()
}

fn contexts() -> Vec<String> {
    let contexts = Contexts::load(|name| env::var_os(name).map(Into::into));
    contexts.map(|contexts| contexts.all().keys().cloned().collect()).unwrap_or_default()
}

/// Returns the names that the daemon sends within the time limit. The command line selects the daemon.
fn ask(named: Named, typed: &str) -> Option<Vec<String>> {
    let settings = settings::parse_leniently(&line())?;
    let mut names = Names { typed, found: Vec::new() };
    names.add_constants(named);
    if let Some(client) = client(&settings) {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let space = settings.try_get_one::<String>("space").ok().flatten();
        let space = space.map_or(DEFAULT_SPACE, String::as_str);
        // OK because the names found before the timeout are kept.
        let _ = runtime.block_on(async { timeout(TIME, names.fetch(named, space, &client)).await });
    }
    Some(names.found)
}

fn client(settings: &ArgMatches) -> Option<Client> {
    let credentials = Credentials::from_arg_matches(settings).ok()?;
    settings
        .try_get_one::<Endpoints>("endpoint")
        .ok()??
        .client(&credentials, TIME, |_| crate::files::Source::Option)
        .ok()
}

/// Returns the words of the command line, without the word to complete.
fn line() -> Vec<OsString> {
    let words: Vec<_> = env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let index = env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
    let index: usize = index.unwrap_or(words.len().saturating_sub(1));
    words.into_iter().enumerate().filter(|(at, _)| *at != index).map(|(_, word)| word).collect()
}

/// Names that begin with the typed text.
struct Names<'t> {
    typed: &'t str,
    found: Vec<String>,
}

impl Names<'_> {
    /// Adds a name if it begins with the typed text. Returns false once there are enough names.
    fn add(&mut self, name: String) -> bool {
        if name.starts_with(self.typed) {
            self.found.push(name);
        }
        self.found.len() < NAMES_MAX
    }

    fn add_constants(&mut self, named: Named) {
        let formats = || Format::all().map(|format| format.token().to_string()).chain(["uid11-fullrand".to_owned()]);
        let constants: Vec<String> = match (named, self.typed.split_once(':')) {
            (Named::Source, _) => formats().collect(),
            (Named::Preset, _) => Preset::all().map(|preset| preset.name.to_owned()).collect(),
            (Named::Spelling, _) => Digits::ALL.map(|digits| digits.to_string()).to_vec(),
            (Named::Format, _) => kent_codec::formats().map(str::to_owned).collect(),
            (Named::Permission, None) => Action::ALL.iter().map(|action| format!("{action}:")).collect(),
            (Named::Permission, Some((action, _))) => {
                let resources = ["*".to_owned()].into_iter().chain(formats());
                resources.map(|resource| format!("{action}:{resource}")).collect()
            }
            _ => Vec::new(),
        };
        for constant in constants {
            self.add(constant);
        }
    }

    /// Adds permissions on spaces and regions.
    async fn add_resources(&mut self, daemon: &Daemon) -> Result<(), Status> {
        let Some((action, resource)) = self.typed.split_once(':') else { return Ok(()) };
        self.add_spaces(&format!("{action}:space:"), daemon).await?;
        self.add_layouts(&format!("{action}:layout:"), daemon).await?;
        // Until the user has typed the name of a space, complete the regions of the default space.
        let space = resource.strip_prefix("region:").and_then(|name| name.rsplit_once('/')).map(|(space, _)| space);
        match space {
            Some(space) => self.add_regions(&format!("{action}:region:{space}/"), space, daemon).await,
            None => self.add_regions(&format!("{action}:region:{DEFAULT_SPACE}/"), DEFAULT_SPACE, daemon).await,
        }
    }

    async fn fetch(&mut self, named: Named, space: &str, client: &Client) -> Option<()> {
        let daemon = client.connect().await.ok()?;
        match named {
            Named::Region => self.add_regions("", space, &daemon).await,
            Named::Space => self.add_spaces("", &daemon).await,
            Named::Series => self.add_series(&daemon).await,
            Named::Layout => self.add_layouts("", &daemon).await,
            Named::Format => self.add_layouts("layout:", &daemon).await,
            Named::Source => match self.typed.split_once('@') {
                Some((region, _)) => self.add_spaces(&format!("{region}@"), &daemon).await,
                None => {
                    self.add_regions("region:", space, &daemon).await.ok()?;
                    self.add_layouts("layout:", &daemon).await.ok()?;
                    self.add_series(&daemon).await
                }
            },
            Named::Token => return self.add_all(access::token_ids(&daemon).await.ok()?),
            Named::Holder => {
                self.add_all(access::role_names(&daemon).await.ok()?)?;
                return self.add_all(access::token_ids(&daemon).await.ok()?);
            }
            Named::Request => return self.add_all(request::ids(space, &daemon).await.ok()?),
            Named::Role => return self.add_all(access::role_names(&daemon).await.ok()?),
            Named::Permission => self.add_resources(&daemon).await,
            Named::Context | Named::Preset | Named::Spelling => Ok(()),
        }
        .ok()
    }

    fn add_all(&mut self, names: Vec<String>) -> Option<()> {
        names.into_iter().all(|name| self.add(name)).then_some(())
    }

    async fn add_regions(&mut self, before: &str, space: &str, daemon: &Daemon) -> Result<(), Status> {
        if !before.starts_with(self.typed) && !self.typed.starts_with(before) {
            return Ok(());
        }
        let mut message =
            ListRegionsRequest { parent: names::space(space), page_size: PAGE_SIZE, ..ListRegionsRequest::default() };
        loop {
            let page = daemon.regions().list_regions(message.clone()).await?.into_inner();
            let mut found = page.regions.iter().map(|region| format!("{before}{}", names::short(&region.name)));
            if !found.all(|name| self.add(name)) || page.next_page_token.is_empty() {
                return Ok(());
            }
            message.page_token = page.next_page_token;
        }
    }

    async fn add_spaces(&mut self, before: &str, daemon: &Daemon) -> Result<(), Status> {
        let mut message = ListSpacesRequest { page_size: PAGE_SIZE, page_token: String::new() };
        loop {
            let page = daemon.regions().list_spaces(message.clone()).await?.into_inner();
            let mut found = page.spaces.iter().map(|space| format!("{before}{}", names::short(&space.name)));
            if !found.all(|name| self.add(name)) || page.next_page_token.is_empty() {
                return Ok(());
            }
            message.page_token = page.next_page_token;
        }
    }

    async fn add_layouts(&mut self, before: &str, daemon: &Daemon) -> Result<(), Status> {
        let listed = daemon.layouts().list_layouts(ListLayoutsRequest {}).await?.into_inner();
        // OK because the limit on names only saves time.
        let _ = listed.layouts.into_iter().all(|layout| self.add(format!("{before}{}", layout.name)));
        Ok(())
    }

    async fn add_series(&mut self, daemon: &Daemon) -> Result<(), Status> {
        let mut pages = daemon.admin().list_series(Request::new(ListSeriesRequest {})).await?.into_inner();
        while let Some(page) = pages.message().await? {
            if !page.series.into_iter().all(|series| self.add(series.source)) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_only_names_that_exist_are_completed() {
        for (group, command, argument, expected) in [
            ("region", "show", "name", Some(Named::Region)),
            ("region", "create", "name", None),
            ("region", "ask", "name", None),
            ("request", "approve", "id", Some(Named::Request)),
            ("request", "approve", "name", None),
            ("region", "create", "split_donor", Some(Named::Region)),
            ("region", "rename", "new_name", None),
            ("region", "ls", "space", Some(Named::Space)),
            ("space", "create", "name", None),
            ("kent", "alloc", "source", Some(Named::Source)),
            ("series", "forget", "series", Some(Named::Series)),
            ("series", "create", "series", None),
            ("layout", "show", "name", Some(Named::Layout)),
            ("layout", "create", "name", None),
            ("layout", "create", "preset", Some(Named::Preset)),
            ("layout", "create", "text", Some(Named::Spelling)),
            ("context", "use", "name", Some(Named::Context)),
            ("token", "revoke", "ids", Some(Named::Token)),
            ("token", "rotate", "id", Some(Named::Token)),
            ("token", "create", "name", None),
            ("token", "create", "roles", Some(Named::Role)),
            ("token", "create", "permissions", Some(Named::Permission)),
            ("role", "set", "name", Some(Named::Role)),
            ("role", "rm", "name", Some(Named::Role)),
            ("budget", "set", "holder", Some(Named::Holder)),
            ("", "kent", "context", Some(Named::Context)),
            ("kent", "check", "space", Some(Named::Space)),
            ("kent", "check", "format", Some(Named::Format)),
            ("kent", "classify", "ids", None),
        ] {
            assert_eq!(Named::by(group, command, argument), expected, "{group} {command} {argument}");
        }
    }

    #[test]
    fn ok_the_command_line_is_consistent_with_completers() {
        command().debug_assert();
    }
}
