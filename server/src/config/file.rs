//! Reads a settings file. An error names the place in the file, the setting, and what is allowed.

use std::path::Path;

use clap::Arg;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, Settings, misspelt};

impl Settings {
    /// Reads a settings file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).map_err(|error| malformed(path, &text, &error)),
            Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), source }),
        }
    }
}

/// Returns the error for an invalid file. Its message is one line.
fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let unexplained = || {
        let problem = error.message().lines().collect::<Vec<_>>().join("; ");
        let problem = match &*problem {
            // The file is in another format, such as YAML.
            "key with no value, expected `=`" => {
                format!("{problem}: this file is TOML, with lines such as threads = 4")
            }
            "too few unicode value digits, expected unicode hexadecimal value" | "invalid escape sequence" => {
                ESCAPE.to_owned()
            }
            problem if problem.starts_with("missing escaped value") => ESCAPE.to_owned(),
            "duplicate key" => {
                let key = error.span().and_then(|span| text.get(span)).unwrap_or_default();
                format!("{key} is set twice: delete one of the lines")
            }
            _ => problem,
        };
        let at = error.span().map_or(0, |span| span.start);
        unquoted(text, at).unwrap_or((at, problem))
    };
    let (at, problem) = first_problem(text).unwrap_or_else(unexplained);
    let before = text.get(..at).unwrap_or(text);
    let (line, column) =
        (before.split('\n').count(), before.rsplit('\n').next().map_or(0, |last| last.chars().count()));
    ConfigError::Malformed { path: path.to_owned(), line, column: column + 1, problem }
}

/// What to do about a backslash that TOML does not accept, as in a Windows path.
const ESCAPE: &str =
    "a backslash begins an escape sequence: write \\\\ for a backslash, or enclose the value in single quotes";

/// Whether a mark is a quote of a word processor.
const fn is_typographic(mark: char) -> bool {
    matches!(mark, '\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}')
}

/// If the parser stopped at `at` in a string without quotes, returns the offset of the string and a message about it.
/// The parser's own message is often about a number, because an address begins like a number.
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
    let bare = value.trim_matches(is_typographic);
    let quoted = format!("{} = {}", key.trim(), toml::Value::from(bare));
    let is_string =
        toml::from_str::<Settings>(&quoted).err().is_none_or(|error| !error.message().starts_with("invalid type"));
    let problem = match bare.len() < value.len() {
        true => "typographic quotes do not quote a string; write",
        false => "string values must be quoted:",
    };
    (is_bare && is_string).then(|| (value_at, format!("{problem} {quoted}")))
}

/// Returns the offset of the first wrong key or value, and the message about it; `None` if the text is not TOML, or if
/// each entry alone is right.
fn first_problem(text: &str) -> Option<(usize, String)> {
    let file = DeTable::parse(text).ok()?;
    let mut entries: Vec<_> = file.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries.into_iter().find_map(|(key, value)| {
        let Some(setting) = misspelt::known(key.get_ref()) else {
            return Some((key.span().start, unknown(key.get_ref(), value.get_ref().is_table())));
        };
        let written = text.get(value.span()).unwrap_or_default();
        let alone = format!("{} = {written}\n", key.get_ref());
        // The span of a section covers only its header, so a section cannot be parsed alone.
        let error = match value.get_ref().is_table() {
            true => "a section".to_owned(),
            false => toml::from_str::<Settings>(&alone).err()?.message().to_owned(),
        };
        let list = if misspelt::is_list(&setting) { as_list(key.get_ref(), value.get_ref()) } else { None };
        let wanted = list.or_else(|| wanted(&error));
        Some((value.span().start, wrong(&setting, key.get_ref(), written, wanted, &error)))
    })
}

/// Returns the message about a key that is not the name of a setting.
fn unknown(key: &str, is_section: bool) -> String {
    match misspelt::setting(key) {
        Some(near) => format!("kentd has no setting {key:?}; did you mean {near}?"),
        None if is_section => {
            format!(
                "kentd has no section {key:?}: write each setting by its full name, such as tls-cert = \"server.pem\""
            )
        }
        None => format!("kentd has no setting {key:?}"),
    }
}

/// The maximum number of characters that a message quotes from a value.
const SHOWN_MAX: usize = 60;

/// Returns the message about a value that serde rejects with `error`.
fn wrong(setting: &Arg, key: &str, written: &str, wanted: Option<String>, error: &str) -> String {
    let help = setting.get_help().map(|help| format!("; {key}: {help}")).unwrap_or_default();
    let Some(wanted) = wanted else { return format!("{key}: {error}{help}") };
    let shown: String =
        written.chars().take(SHOWN_MAX).map(|mark| if mark.is_control() { ' ' } else { mark }).collect();
    let more = if shown.len() < written.len() { "..." } else { "" };
    format!("{key} is {shown}{more}, but must be {wanted}{help}")
}

/// Describes the string with which to replace an array, because a list is written as one string.
fn as_list(key: &str, value: &DeValue<'_>) -> Option<String> {
    let items: Option<Vec<_>> = value.as_array()?.iter().map(|item| item.get_ref().as_str()).collect();
    let items = items.filter(|items| !items.is_empty()).map(|items| toml::Value::from(items.join(",")));
    let example = items.map(|items| format!(": {key} = {items}")).unwrap_or_default();
    Some(format!("one string with commas{example}"))
}

/// Returns what a setting must be, in words, if the error from serde names a Rust type.
fn wanted(error: &str) -> Option<String> {
    let expected = error.rsplit_once("expected ").map_or(error, |(_, expected)| expected);
    Some(match expected {
        "usize" | "u64" | "u32" | "u16" => "a whole number, without quotes or a unit".to_owned(),
        "a boolean" => "true or false, without quotes".to_owned(),
        "a duration" => "a duration in quotes, such as \"500ms\", \"30s\" or \"5m\"".to_owned(),
        "a string" | "path string" | "wanted string or table" | "a section" => {
            "one value, such as a string in quotes".to_owned()
        }
        names if error.starts_with("unknown variant") => format!("{} in quotes", names.replace('`', "")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_a_file_that_is_not_valid_gets_one_line_with_the_place_and_what_is_allowed() {
        let whole = "but must be a whole number, without quotes or a unit; threads: Threads that serve connections";
        for (text, place, expected) in [
            ("listen = \n", "1:10", "string values must be quoted, expected literal string"),
            (
                "listen = 127.0.0.1:7814",
                "1:10",
                "string values must be quoted: listen = \"127.0.0.1:7814\" (`kentd --help`",
            ),
            ("threads = 2\n http=127.0.0.1 # x", "2:7", "must be quoted: http = \"127.0.0.1\" (`kentd --help`"),
            ("listen = [::1]:7600", "1:10", "must be quoted: listen = \"[::1]:7600\" (`kentd --help`"),
            ("caller-limits = ids=1k/s,calls=1/s", "1:17", "must be quoted: caller-limits = \"ids=1k/s,calls=1/s\""),
            ("data = C:\\x", "1:8", "must be quoted: data = 'C:\\x' (`kentd --help`"),
            (
                "listen = \u{201c}127.0.0.1:7816\u{201d}",
                "1:10",
                "typographic quotes do not quote a string; write listen = \"127.0.0.1:7816\" (`kentd --help`",
            ),
            ("data = \"C:\\kent\"", "1:12", "write \\\\ for a backslash, or enclose the value in single quotes"),
            ("data = \"C:\\users\"", "1:13", "write \\\\ for a backslash, or enclose the value in single quotes"),
            ("trace-ratio = 0.1.2", "1:18", "invalid float"),
            ("grace = 3\ngrace = 3", "2:1", "grace is set twice: delete one of the lines"),
            (
                "listen: 127.0.0.1:7600",
                "1:9",
                "expected `=`: this file is TOML, with lines such as threads = 4 (`kentd --help`",
            ),
            ("listen = '127.0.0.1:7600' x", "1:27", "expected newline"),
            ("grace = '3s'\nthreads = 'x'", "2:11", &format!("threads is 'x', {whole}")),
            ("threads = -1", "1:11", &format!("threads is -1, {whole}")),
            ("threads = 1.5", "1:11", &format!("threads is 1.5, {whole}")),
            ("threads = [1]", "1:11", &format!("threads is [1], {whole}")),
            (
                "listen = ['127.0.0.1:1', \"unix:a\"]",
                "1:10",
                "listen is ['127.0.0.1:1', \"unix:a\"], but must be one string with commas: listen = \"127.0.0.1:1,unix:a\"; listen: A",
            ),
            ("caller-limits = []", "1:17", "but must be one string with commas; caller-limits: Limits"),
            ("metrics-regions = 5", "1:19", "metrics-regions is 5, but must be one value, such as a string in quotes"),
            ("threads = 99999999999999999999", "1:11", whole),
            (
                "insecure = 'yes'",
                "1:12",
                "insecure is 'yes', but must be true or false, without quotes; insecure: Allow",
            ),
            ("data = 5", "1:8", "data is 5, but must be one value, such as a string in quotes; data: Directory"),
            ("grace = 5", "1:9", "grace is 5, but must be a duration in quotes, such as \"500ms\", \"30s\" or \"5m\""),
            ("[threads]\na = 1", "1:1", "but must be one value"),
            ("log-format = 'xml'", "1:14", "log-format is 'xml', but must be text or json in quotes"),
            ("audit = ''", "1:9", "audit: expected a file, such as /var/log/kent/audit.jsonl, or stderr; audit: Where"),
            ("auth = true", "1:8", "auth is true, but must be one value, such as a string in quotes"),
            ("store = 'x'", "1:9", "store: \"x\" is not a store: use `sled`"),
            ("threads = 1\nstore-user = 5", "2:14", "store-user is 5, but must be one value"),
            ("tls-cert = 5", "1:12", "tls-cert is 5, but must be one value"),
            (
                "# \u{fc}\n[tls]\nx = 1",
                "2:2",
                "no section \"tls\": write each setting by its full name, such as tls-cert",
            ),
            ("server = 'x'", "1:1", "kentd has no setting \"server\""),
            ("threads = 2\nlisen = 'x'", "2:1", "kentd has no setting \"lisen\"; did you mean listen?"),
            ("threads = 2\n\nthreads = 3", "3:1", "threads is set twice"),
        ] {
            let folder = tempfile::tempdir().expect("a directory");
            let path = folder.path().join("kentd.toml");
            std::fs::write(&path, text).expect("written");
            let error = Settings::read(&path).expect_err("must be refused").to_string();
            assert!(error.contains(&format!("kentd.toml:{place}: ")) && error.contains(expected), "{error}");
            assert!(error.lines().count() == 1 && !error.contains("usize"), "{error}");
        }
    }
}
