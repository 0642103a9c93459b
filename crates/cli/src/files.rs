//! Checks the certificate files and the token file before a client uses them. The messages say where the path was
//! given.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use kent_access::Presented;
use kent_tls::{Needed, Unfit};

/// Where the path of a file was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Option,
    Variable,
    /// The context of this name.
    Context(String),
}

/// A setting, and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) setting: &'static str,
    pub(crate) source: Source,
}

/// Reasons why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadFile {
    /// The message does not repeat the token, because messages may be logged.
    #[error(
        "{named} takes the name of a file, not a token: write the token to a file that only you can read (umask 077), and name that \
         file{}", named.advice()
    )]
    TokenForFile { named: Named },
    #[error("cannot read the file {} of {named}: {error}{}", path.display(), named.advice())]
    Unread { named: Named, path: PathBuf, error: io::Error },
    #[error("{named} needs a PEM file with {needed}: {unfit}{}", named.advice())]
    Content { named: Named, needed: Needed, unfit: Unfit },
    #[error(
        "{named} needs a file that contains only a token (a token is kent_ID_SECRET), as `kent token create NAME --allow ACTION:RESOURCE --out FILE` writes it; \
         {} has {found}{}", path.display(), named.advice()
    )]
    NotAToken { named: Named, path: PathBuf, found: &'static str },
}

impl Named {
    /// Returns advice with the command that corrects the setting, or an empty string for an option of the command line.
    pub(crate) fn advice(&self) -> String {
        let Self { setting, source } = self;
        match source {
            Source::Option => String::new(),
            Source::Variable => {
                let variable = variable(setting);
                format!("; name another file with `export {variable}=FILE`, or none with `unset {variable}`")
            }
            Source::Context(name) => format!(
                "; name another file with `kent context set {name} --{setting} FILE`, or none with `kent context set {name} --unset {setting}`"
            ),
        }
    }

    /// Describes the file: its path, the setting that names it, and the advice of [`Self::advice`].
    pub(crate) fn origin(&self, path: &Path) -> String {
        format!("{}, the file of {self}{}", path.display(), self.advice())
    }

    /// Checks that the file contains what the setting needs. The client reads the file again for each connection.
    pub(crate) fn check(&self, path: &Path) -> Result<(), BadFile> {
        let (named, path) = (self.clone(), path.to_owned());
        if Presented::parse(path.as_os_str().as_encoded_bytes()).is_ok() {
            return Err(BadFile::TokenForFile { named });
        }
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) => return Err(BadFile::Unread { named, path, error }),
        };
        let needed = match self.setting {
            "token-file" => {
                let parsed = Presented::parse(text.trim_ascii());
                return parsed.map(drop).map_err(|_| BadFile::NotAToken {
                    named,
                    path,
                    found: instead_of_token(&text),
                });
            }
            "key" => Needed::Key,
            _ => Needed::Certificate,
        };
        needed.check(&text, path.display()).map_err(|unfit| BadFile::Content { named, needed, unfit })
    }
}

/// Describes the content of a file that is not a token.
fn instead_of_token(text: &[u8]) -> &'static str {
    let tokens = text.split(u8::is_ascii_whitespace).filter(|word| word.starts_with(b"kent_")).count();
    match (tokens, text.trim_ascii().is_empty()) {
        (_, true) => "nothing in it",
        (0, false) => "none",
        (1, false) => "an incomplete token, or other text besides a token",
        (_, false) => "several",
    }
}

/// Returns the name of the environment variable of a setting.
fn variable(setting: &str) -> String {
    format!("KENT_{}", setting.to_uppercase().replace('-', "_"))
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, source } = self;
        match source {
            Source::Option => write!(f, "--{setting}"),
            Source::Variable => write!(f, "the variable {}", variable(setting)),
            Source::Context(name) => write!(f, "{setting} in context {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_origin_of_a_file_is_its_setting() {
        for (source, expected) in [
            (Source::Option, "s.token, the file of --token-file"),
            (
                Source::Variable,
                "s.token, the file of the variable KENT_TOKEN_FILE; name another file with `export KENT_TOKEN_FILE=FILE`, or none with \
                 `unset KENT_TOKEN_FILE`",
            ),
            (
                Source::Context("p".to_owned()),
                "s.token, the file of token-file in context p; name another file with `kent context set p --token-file FILE`, or none with \
                 `kent context set p --unset token-file`",
            ),
        ] {
            assert_eq!(Named { setting: "token-file", source }.origin(Path::new("s.token")), expected);
        }
    }

    #[test]
    fn err_a_file_without_what_its_setting_needs() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("notes.txt");
        fs::write(&path, "no PEM").expect("written");
        let shown = path.display();
        for (setting, source, begin, end) in [
            ("ca", Source::Option, "--ca needs a PEM file with a certificate: ", "not a certificate"),
            (
                "key",
                Source::Variable,
                "the variable KENT_KEY needs a PEM file with a private key: ",
                "`unset KENT_KEY`",
            ),
            (
                "cert",
                Source::Context("p".to_owned()),
                "cert in context p needs a PEM file with a certificate: ",
                "; name another file with `kent context set p --cert FILE`, or none with `kent context set p --unset cert`",
            ),
            ("token-file", Source::Option, "--token-file needs a file that contains only a token", "has none"),
        ] {
            let error = Named { setting, source }.check(&path).expect_err("refused").to_string();
            assert!(error.starts_with(begin) && error.ends_with(end) && error.contains(&shown.to_string()), "{error}");
        }
        let token = format!("kent_010203040506_{}", "ab".repeat(32));
        let error = Named { setting: "token-file", source: Source::Option }.check(token.as_ref()).expect_err("refused");
        let error = error.to_string();
        assert!(error.starts_with("--token-file takes the name of a file") && !error.contains("abab"), "{error}");
        for (text, found) in [("\n", "nothing in it"), ("kent_1", "an incomplete token"), ("kent_1 kent_2", "several")]
        {
            fs::write(&path, text).expect("written");
            let error = Named { setting: "token-file", source: Source::Option }.check(&path).expect_err("refused");
            assert!(error.to_string().contains(found), "{error}");
        }
    }
}
