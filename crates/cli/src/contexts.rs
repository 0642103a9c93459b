//! Contexts: names for daemons and their settings, in a file that `kent context` writes.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

/// The contexts file. Edits keep its comments and the order of its entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contexts {
    path: PathBuf,
    document: DocumentMut,
    content: Content,
}

/// The content of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// The context that commands use by default.
    current: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

/// The settings of a context. Missing settings have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Context {
    pub(crate) endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<String>,
    pub(crate) space: Option<String>,
    pub(crate) request_timeout: Option<String>,
}

impl Context {
    /// Returns the setting of this name, if the context has it.
    pub(crate) fn get(&self, setting: &str) -> Option<&str> {
        match setting {
            "endpoint" => self.endpoint.as_deref(),
            "ca" => self.ca.as_deref(),
            "cert" => self.cert.as_deref(),
            "key" => self.key.as_deref(),
            "token-file" => self.token_file.as_deref(),
            "space" => self.space.as_deref(),
            "request-timeout" => self.request_timeout.as_deref(),
            _ => None,
        }
    }
}

/// The names of a context's settings, which are also the names of the options.
pub(crate) const SETTINGS: [&str; 7] = ["endpoint", "ca", "cert", "key", "token-file", "space", "request-timeout"];

/// The settings that are paths. A context stores absolute paths, because commands run in any directory.
pub(crate) const PATHS: [&str; 4] = ["ca", "cert", "key", "token-file"];

/// The variable that names the contexts file.
const VARIABLE: &str = "KENT_CLIENT_CONFIG";

/// Reasons why the contexts file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("cannot find your configuration directory: set HOME, XDG_CONFIG_HOME or KENT_CLIENT_CONFIG")]
    Homeless,
    #[error("cannot {what} the contexts file {}: {error}", path.display())]
    File { what: &'static str, path: PathBuf, error: io::Error },
    #[error("{}:{line}:{column}: {error}", path.display())]
    Syntax { path: PathBuf, line: usize, column: usize, error: String },
    #[error("there is no context {name:?}; {}", known(names))]
    Unknown { name: String, names: Vec<String> },
    #[error("there is no context {name:?}; {}; the name comes from the variable KENT_CONTEXT", known(names))]
    UnknownInVariable { name: String, names: Vec<String> },
    #[error("current in {} names the context {name:?}, which does not exist{}", path.display(), instead(names))]
    NoCurrent { path: PathBuf, name: String, names: Vec<String> },
    #[error("{}: the {setting} {text:?} of context {name} is not valid: {error}", path.display())]
    Setting { path: PathBuf, name: String, setting: &'static str, text: String, error: String },
}

fn known(names: &[String]) -> String {
    match names {
        [] => "there are none yet; create one with `kent context set NAME --endpoint HOST:PORT`".to_owned(),
        names => format!("the contexts are {}", names.join(", ")),
    }
}

/// Returns advice on what to choose instead of a current context that does not exist.
fn instead(names: &[String]) -> String {
    match names.first() {
        None => ": choose none with `kent context use --none`".to_owned(),
        Some(first) => format!(
            "; {}: choose one with `kent context use {first}`, or none with `kent context use --none`",
            known(names)
        ),
    }
}

impl Contexts {
    /// Reads the file. If it does not exist, there are no contexts. `variable` returns the value of an environment
    /// variable.
    pub(crate) fn load(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, Fault> {
        let Some(path) = path(&variable) else { return Ok(Self::default()) };
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { path, ..Self::default() }),
            Err(error) if variable(VARIABLE).is_some_and(|named| named == path) => {
                let origin = format!("{error}; the path comes from the variable {VARIABLE}");
                Err(Fault::File { what: "read", path, error: io::Error::new(error.kind(), origin) })
            }
            Err(error) => Err(Fault::File { what: "read", path, error }),
        }
    }

    fn parse(path: PathBuf, text: &str) -> Result<Self, Fault> {
        let parsed = text.parse::<DocumentMut>().map_err(|error| (error.span(), error.message().to_owned())).and_then(
            |document| match toml_edit::de::from_str(text) {
                Ok(content) => Ok((document, content)),
                Err(error) => Err((error.span(), error.message().to_owned())),
            },
        );
        match parsed {
            Ok((document, content)) => Ok(Self { path, document, content }),
            Err((span, error)) => {
                let error = error.lines().collect::<Vec<_>>().join("; ");
                let at = span.map_or(0, |span| span.start);
                let (at, error) = unquoted(text, at).unwrap_or((at, error));
                let before = text.get(..at).unwrap_or_default();
                let (line, last) = (before.split('\n').count(), before.rsplit('\n').next().unwrap_or_default());
                Err(Fault::Syntax { path, line, column: last.chars().count() + 1, error })
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn current(&self) -> Option<&str> {
        self.content.current.as_deref()
    }

    /// Returns all contexts by name.
    pub(crate) fn all(&self) -> &BTreeMap<String, Context> {
        &self.content.contexts
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Context, Fault> {
        let unknown = || Fault::Unknown { name: name.to_owned(), names: self.names() };
        self.content.contexts.get(name).ok_or_else(unknown)
    }

    /// Returns the current context and its name, if there is one.
    pub(crate) fn get_current(&self) -> Result<Option<(&str, &Context)>, Fault> {
        let Some(name) = self.current() else { return Ok(None) };
        let gone = || Fault::NoCurrent { path: self.path.clone(), name: name.to_owned(), names: self.names() };
        self.content.contexts.get(name).map(|context| Some((name, context))).ok_or_else(gone)
    }

    fn names(&self) -> Vec<String> {
        self.content.contexts.keys().cloned().collect()
    }

    /// Creates a context, or changes the given settings of an existing one. A setting without a value is removed.
    pub(crate) fn set(&mut self, name: &str, changes: &[(&str, Option<String>)]) -> Result<(), Fault> {
        self.edit(|document| {
            let entry = child(child(document.as_table_mut(), "contexts", true)?, name, false)?;
            for (setting, text) in changes {
                match text {
                    Some(text) => put(entry, setting, text),
                    None => drop(entry.remove(setting)),
                }
            }
            Some(())
        })
    }

    /// Makes a context the current one. With `None`, no context is current.
    pub(crate) fn choose(&mut self, name: Option<&str>) -> Result<(), Fault> {
        if let Some(name) = name {
            self.get(name)?;
        }
        self.edit(|document| {
            match name {
                Some(name) => put(document.as_table_mut(), "current", name),
                None => drop(document.remove("current")),
            }
            Some(())
        })
    }

    /// Removes a context. If it is the current one, no context is current afterward.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Fault> {
        self.get(name)?;
        if self.current() == Some(name) {
            self.choose(None)?;
        }
        self.edit(|document| child(document.as_table_mut(), "contexts", true)?.remove(name).map(drop))
    }

    /// Applies an edit to the text, and parses the result. An edit that does not fit the structure of the file changes
    /// nothing.
    fn edit(&mut self, edit: impl FnOnce(&mut DocumentMut) -> Option<()>) -> Result<(), Fault> {
        let mut document = self.document.clone();
        if edit(&mut document).is_some() {
            *self = Self::parse(self.path.clone(), &document.to_string())?;
        }
        Ok(())
    }

    /// Replaces the file with one that only its owner can read.
    pub(crate) fn save(&self) -> Result<(), Fault> {
        if self.path.as_os_str().is_empty() {
            return Err(Fault::Homeless);
        }
        let write = || {
            // Keep a symbolic link, such as one to a directory of dotfiles.
            let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            // `NamedTempFile` creates the file with mode 0600.
            let mut file = NamedTempFile::new_in(folder)?;
            file.write_all(self.document.to_string().as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        };
        write().map_err(|error| Fault::File { what: "write", path: self.path.clone(), error })
    }
}

/// If the parser stopped at `at` because a string lacks quotes, returns the offset of the string and a message. The
/// parser's own message is often about numbers, because an address may begin like one. Every setting is a string.
fn unquoted(text: &str, at: usize) -> Option<(usize, String)> {
    let begin = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(begin..)?.lines().next()?;
    let (key, rest) = line.split_once('=')?;
    let (value_at, value) = (begin + line.len() - rest.trim_start().len(), rest.split(" #").next()?.trim());
    let is_bare = match value.chars().next()? {
        '"' | '\'' | '{' => false,
        '[' => value.contains("]:"), // the port of an IPv6 address
        _ => at >= value_at,
    };
    is_bare.then(|| (value_at, format!("string values must be quoted: {} = {}", key.trim(), Value::from(value))))
}

/// Sets a value, and keeps the comments of the old one.
fn put(table: &mut dyn TableLike, key: &str, text: &str) {
    let mut new = Value::from(text);
    match table.get_mut(key) {
        Some(item) => {
            if let Some(old) = item.as_value() {
                *new.decor_mut() = old.decor().clone();
            }
            *item = Item::Value(new);
        }
        None => drop(table.insert(key, Item::Value(new))),
    }
}

/// Returns the table of this name, and creates it if it is missing. In the file, a new implicit table has a header only
/// if it directly contains values.
fn child<'t>(table: &'t mut dyn TableLike, name: &str, implicit: bool) -> Option<&'t mut dyn TableLike> {
    let new = || {
        let mut table = Table::new();
        table.set_implicit(implicit);
        Item::Table(table)
    };
    table.entry(name).or_insert_with(new).as_table_like_mut()
}

/// Returns the path of the contexts file. `KENT_CONFIG` is not read, because it names the settings file of `kentd`.
fn path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    let folder = || {
        let configured = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        configured.or_else(|| set("HOME").map(|home| home.join(".config")))
    };
    set(VARIABLE).or_else(|| folder().map(|folder| folder.join("kent").join("config.toml")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_path_follows_the_environment() {
        for (variables, expected) in [
            (&[][..], None),
            (&[("HOME", "/h")], Some("/h/.config/kent/config.toml")),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "")], Some("/h/.config/kent/config.toml")),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "x")], Some("/h/.config/kent/config.toml")),
            (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")], Some("/x/kent/config.toml")),
            (&[("XDG_CONFIG_HOME", "/x"), ("KENT_CLIENT_CONFIG", "c.toml")], Some("c.toml")),
        ] {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value));
            assert_eq!(path(variable), expected.map(PathBuf::from), "{variables:?}");
        }
    }

    fn of(text: &str) -> Contexts {
        Contexts::parse(PathBuf::from("c.toml"), text).expect("valid")
    }

    #[test]
    fn ok_edits_keep_comments_and_other_entries() {
        let mut contexts = of("# mine\ncurrent = \"a\"\n\n[contexts.a]\nspace = \"s\" # why\n");
        contexts.set("b.1", &[("endpoint", Some("h:1".to_owned()))]).expect("set");
        contexts.set("a", &[("request-timeout", Some("2s".to_owned())), ("space", Some("t".to_owned()))]).expect("set");
        contexts.choose(Some("b.1")).expect("chosen");
        assert_eq!(
            contexts.document.to_string(),
            "# mine\ncurrent = \"b.1\"\n\n[contexts.a]\nspace = \"t\" # why\nrequest-timeout = \"2s\"\n\n[contexts.\"b.1\"]\nendpoint = \"h:1\"\n"
        );
        contexts.set("a", &[("space", None)]).expect("removed");
        assert_eq!(contexts.get("a").expect("there").space, None);
        contexts.remove("b.1").expect("removed");
        assert_eq!((contexts.current(), contexts.all().len()), (None, 1));
    }

    #[test]
    fn ok_a_new_file_has_one_table_for_each_context() {
        let mut contexts = Contexts::default();
        contexts.set("prod", &[("endpoint", Some("h:1".to_owned()))]).expect("set");
        contexts.choose(Some("prod")).expect("chosen");
        assert_eq!(contexts.document.to_string(), "current = \"prod\"\n[contexts.prod]\nendpoint = \"h:1\"\n");
    }

    #[test]
    fn err_a_current_context_that_does_not_exist() {
        for (text, instead) in [
            (
                "[contexts.a]\n[contexts.b]\n",
                "; the contexts are a, b: choose one with `kent context use a`, or none with `kent context use --none`",
            ),
            ("", ": choose none with `kent context use --none`"),
        ] {
            let error = of(&format!("current = \"c\"\n{text}")).get_current().expect_err("gone").to_string();
            assert_eq!(error, format!("current in c.toml names the context \"c\", which does not exist{instead}"));
        }
        assert_eq!(of("[contexts.a]\n").get_current().expect("valid"), None);
        let both = of("current = \"a\"\n[contexts.a]\n");
        assert_eq!(both.get_current().expect("valid"), Some(("a", &Context::default())));
    }

    #[test]
    fn err_unknown_contexts_and_unknown_settings() {
        assert_eq!(
            of("[contexts.a]\n[contexts.b]\n").get("c").expect_err("unknown").to_string(),
            "there is no context \"c\"; the contexts are a, b"
        );
        let quoted = "string values must be quoted:";
        for (text, hint) in [
            ("[contexts.a]\nport = 1\n", "2:1: unknown field `port`"),
            ("current = 1\n", &format!("1:11: {quoted} current = \"1\"")),
            ("[", "1:2: "),
            ("[contexts.a]\nendpoint = 127.0.0.1:7600", &format!("2:12: {quoted} endpoint = \"127.0.0.1:7600\"")),
            ("[contexts.a]\n endpoint=[::1]:1 # b", &format!("2:11: {quoted} endpoint = \"[::1]:1\"")),
            ("[contexts.a]\nendpoint = 'a:1' b", "2:18: unexpected key or value"),
        ] {
            let error = Contexts::parse(PathBuf::from("c.toml"), text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("c.toml:{hint}")) && error.lines().count() == 1, "{error}");
        }
    }
}
