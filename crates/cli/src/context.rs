//! `kent context`: lists, shows and changes contexts.

use std::env;
use std::path::{self, Path, PathBuf};

use serde_json::json;

use crate::args::{ContextCommand, ContextSetArgs};
use crate::connect::{self, Credentials, Endpoints};
use crate::contexts::{Context, Contexts, Fault, PATHS, SETTINGS};
use crate::failure::Failure;
use crate::files::{Named, Source};
use crate::notice;
use crate::output::Out;
use crate::settings::{Origin, Settings};
use crate::table::{Cell, Table};

/// The variable that names a context.
const VARIABLE: &str = "KENT_CONTEXT";

pub(crate) fn run(command: &ContextCommand, settings: Settings, out: &mut Out) -> Result<(), Failure> {
    if let ContextCommand::Show(_) = command {
        return show(&settings, out);
    }
    // These commands must work even if the current context is not valid, because they can repair it.
    let chosen = settings.chosen.as_ref().ok().and_then(|chosen| chosen.name.clone());
    let given = SETTINGS.map(|setting| (setting, settings.get(setting)));
    let mut contexts = settings.contexts.map_err(unusable)?;
    match command {
        ContextCommand::List => list(&contexts, chosen.as_deref(), out),
        ContextCommand::Set(args) => {
            let given = given.into_iter().filter(|(_, (_, origin))| *origin == Origin::Option);
            set(args, given.map(|(setting, (text, _))| (setting, text)), &mut contexts)?;
            list_one(&contexts, &args.name, out)?;
            match contexts.current() == Some(&args.name) || out.is_json() {
                true => Ok(()),
                false => out.text(&format!("use it for all commands with `kent context use {}`\n", args.name)),
            }
        }
        ContextCommand::Use(args) => {
            contexts.choose(args.name.as_deref()).and_then(|()| contexts.save()).map_err(unusable)?;
            warn_of_variable(args.name.as_deref(), out);
            match &args.name {
                Some(name) => list_one(&contexts, name, out),
                None if out.is_json() => Ok(()),
                None => out.text("commands now use no context\n"),
            }
        }
        ContextCommand::Delete { name } => {
            let was_current = contexts.current() == Some(name);
            contexts.remove(name).and_then(|()| contexts.save()).map_err(unusable)?;
            match was_current {
                _ if out.is_json() => Ok(()),
                true => out.text(&format!("deleted context {name}; commands now use no context\n")),
                false => out.text(&format!("deleted context {name}\n")),
            }
        }
        ContextCommand::Show(_) => Ok(()),
    }
}

fn unusable(fault: Fault) -> Failure {
    Failure::Usage(fault.to_string())
}

fn warn_of_variable(name: Option<&str>, out: &Out) {
    if let Ok(other) = env::var(VARIABLE)
        && !other.is_empty()
        && Some(other.as_str()) != name
    {
        notice::warn(&format!("{VARIABLE} is {other:?} in this shell and takes precedence"), out.is_json());
    }
}

fn set(
    args: &ContextSetArgs,
    given: impl Iterator<Item = (&'static str, String)>,
    contexts: &mut Contexts,
) -> Result<(), Failure> {
    let mut changes: Vec<_> = args.unset.iter().map(|setting| (setting.as_str(), None)).collect();
    for (setting, text) in given {
        if args.unset.iter().any(|unset| unset == setting) {
            return Err(Failure::Usage(format!(
                "--unset {setting} contradicts --{setting} {text}: give one of the two"
            )));
        }
        let text = match PATHS.contains(&setting) {
            true => absolute(&text),
            false => text,
        };
        changes.push((setting, Some(text)));
    }
    if changes.is_empty() {
        let message = "nothing to set: add --endpoint, --ca, --cert, --key, --token-file, --space or --request-timeout, or --unset with the name of one";
        return Err(Failure::Usage(message.to_owned()));
    }
    contexts.set(&args.name, &changes).map_err(unusable)?;
    let context = contexts.get(&args.name).map_err(unusable)?;
    let given: Vec<_> = changes.iter().filter(|(_, text)| text.is_some()).map(|(setting, _)| *setting).collect();
    check_files(&args.name, context, &given)?;
    contexts.save().map_err(unusable)
}

/// Checks the given files. If all files of the context are usable, also checks that a client can use them together.
fn check_files(name: &str, context: &Context, given: &[&str]) -> Result<(), Failure> {
    let unusable = |error: &dyn std::error::Error| Failure::Unconnectable(error.to_string());
    let source = |setting: &str| match given.contains(&setting) {
        true => Source::Option,
        false => Source::Context(name.to_owned()),
    };
    let mut all_fit = true;
    for setting in PATHS {
        let Some(path) = context.get(setting) else { continue };
        match (Named { setting, source: source(setting) }).check(Path::new(path)) {
            Err(bad) if given.contains(&setting) => return Err(unusable(&bad)),
            checked => all_fit &= checked.is_ok(),
        }
    }
    if !all_fit || !given.iter().any(|setting| *setting == "endpoint" || PATHS.contains(setting)) {
        return Ok(());
    }
    let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
    let credentials = Credentials {
        ca: path(&context.ca),
        cert: path(&context.cert),
        key: path(&context.key),
        token_file: path(&context.token_file),
        // A later command may use --allow-plain-token.
        allow_plain_token: true,
    };
    // The endpoint may be set later.
    let endpoint = context.endpoint.as_deref().unwrap_or("https://127.0.0.1:7600");
    let endpoints = endpoint.parse::<Endpoints>().map_err(|error| unusable(&error))?;
    endpoints.client(&credentials, connect::call_timeout(), source).map(drop).map_err(|error| unusable(&error))
}

/// Returns the absolute path, or the same path if the working directory is gone.
fn absolute(path: &str) -> String {
    path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

fn list(contexts: &Contexts, chosen: Option<&str>, out: &mut Out) -> Result<(), Failure> {
    list_those(contexts, |_| true, chosen, out)
}

fn list_one(contexts: &Contexts, name: &str, out: &mut Out) -> Result<(), Failure> {
    list_those(contexts, |known| known == name, contexts.current(), out)
}

fn list_those(
    contexts: &Contexts,
    wanted: impl Fn(&str) -> bool,
    chosen: Option<&str>,
    out: &mut Out,
) -> Result<(), Failure> {
    let mut table = Table::new(["", "CONTEXT", "ENDPOINT", "SPACE", "REQUEST TIMEOUT"]);
    for (name, context) in contexts.all().iter().filter(|(name, _)| wanted(name)) {
        let is_chosen = chosen == Some(name);
        if out.is_json() {
            out.json(&json!({"name": name, "current": is_chosen, "settings": context}))?;
        }
        let cell = |setting| Cell::from(context.get(setting).unwrap_or("-"));
        table.row([
            if is_chosen { "*" } else { "" }.into(),
            Cell::from(name),
            cell("endpoint"),
            cell("space"),
            cell("request-timeout"),
        ]);
    }
    match out.is_json() {
        true => Ok(()),
        false => out.text(&table.render(out.palette())),
    }
}

/// Prints the effective settings, and where each comes from.
fn show(settings: &Settings, out: &mut Out) -> Result<(), Failure> {
    settings.check().map_err(|fault| Failure::Usage(fault.to_string()))?;
    let name = settings.chosen.as_ref().ok().and_then(|chosen| chosen.name.clone());
    let mut table = Table::new(["SETTING", "VALUE", "FROM"]);
    for setting in ["context"].into_iter().chain(SETTINGS) {
        let (text, origin) = settings.get(setting);
        if PATHS.contains(&setting) && text.is_empty() {
            continue;
        }
        let (text, from) = match (setting, origin) {
            (_, Origin::Option) => (text, format!("--{setting}")),
            (_, Origin::Variable) => (text, format!("KENT_{}", setting.to_uppercase().replace('-', "_"))),
            ("context", _) if name.is_some() => (name.clone().unwrap_or_default(), "kent context use".to_owned()),
            (_, Origin::Context) => (text, format!("context {}", name.as_deref().unwrap_or_default())),
            ("context", _) => ("none".to_owned(), "default".to_owned()),
            (_, Origin::Default) => (text, "default".to_owned()),
        };
        if out.is_json() {
            out.json(&json!({"setting": setting, "value": text, "from": from}))?;
        }
        table.row([Cell::from(setting), Cell::from(text), Cell::from(from)]);
    }
    match out.is_json() {
        true => Ok(()),
        false => out.text(&table.render(out.palette())),
    }
}
