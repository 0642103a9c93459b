//! Checks that `kent` can parse every command that Kent's messages suggest.
//!
//! The test reads the string literals of the sources. It replaces each placeholder, whether the program or the reader
//! fills it in, with a sample.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{CommandFactory, Parser};
use proc_macro2::{TokenStream, TokenTree};
use syn::LitStr;

use crate::args::Cli;

/// The sources whose messages people read.
const SOURCES: [&str; 13] = [
    "client/src",
    "crates/cli/src",
    "crates/codec/src",
    "crates/engine/src",
    "crates/http/src",
    "crates/ids/src",
    "crates/issue/src",
    "crates/redis/src",
    "crates/regions/src",
    "crates/store/src",
    "crates/transport/src",
    "proto/src",
    "server/src",
];
/// Samples for placeholders. A command must be valid with at least one of them.
const SAMPLES: [&str; 7] = ["1", "48", "serial:SAMPLE", "80:1", "admin:*", "0123456789ab", "ca"];
/// A sample for the source of a budget.
const RESOURCE: &str = "uuidv7";
/// Characters that end a command within a sentence.
const ENDS: [char; 10] = ['`', '(', ')', ',', ';', '|', '&', '<', '>', '\n'];
/// Source files that the test skips, because their tips quote wrong command lines.
const TIPS: [&str; 2] = ["crates/cli/src/usage.rs", "crates/cli/src/usage/habits.rs"];
/// Strings that name a command without suggesting it.
const LABELS: [&str; 1] = ["kent context use"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Collects the string literals of a source, without those of its comments.
fn literals(tokens: TokenStream, found: &mut Vec<String>) {
    let mut is_comment = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Ident(ident) => is_comment = ident == "doc",
            TokenTree::Punct(_) => {}
            TokenTree::Literal(literal) => {
                let text = syn::parse2::<LitStr>(TokenTree::Literal(literal).into()).map(|text| text.value());
                found.extend(text.ok().filter(|_| !is_comment));
                is_comment = false;
            }
        }
    }
}

/// Returns the commands that a string suggests, as written. A suggested command begins with `kent` and one of
/// `commands`, and ends where the sentence or the example ends.
fn suggested<'t>(text: &'t str, commands: &[String]) -> Vec<&'t str> {
    let starts = text.match_indices("kent ").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|before| matches!(before, '`' | '(' | ' ' | '\n' | ':'))
    });
    let command = |(at, _): (usize, &str)| {
        let rest = &text[at..];
        // Within quotes, a punctuation mark does not end a command.
        let mut quotes = 0;
        let is_end = |mark: char| {
            quotes += u32::from(mark == '\'');
            quotes % 2 == 0 && ENDS.contains(&mark)
        };
        let end = [
            rest.find(is_end),
            rest.find("  "),
            rest.find(" or "),
            rest.find(" and "),
            rest.find(" would "),
            rest.find(": "),
            rest.match_indices(". ").map(|(at, _)| at).find(|at| !rest[..*at].ends_with(' ')),
        ];
        let command = rest[..end.into_iter().flatten().min().unwrap_or(rest.len())].trim_end_matches(' ');
        commands.iter().any(|name| command.split(' ').nth(1) == Some(name)).then_some(command)
    };
    starts.filter_map(command).collect()
}

/// Returns the words of a command, with a sample for each placeholder: `{...}` or a word in capitals. A placeholder
/// right after another one is for options that may be absent.
fn sampled(command: &str, sample: &str) -> Vec<String> {
    let (mut whole, mut rest) = (String::new(), command);
    while let Some((before, after)) = rest.split_once('{') {
        whole.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or_default();
        if !before.is_empty() {
            whole.push_str(match name {
                _ if before.ends_with(" -n ") || before.ends_with(" +") => SAMPLES[0],
                // A placeholder right after a word is for options.
                _ if before.ends_with(|last: char| last.is_ascii_lowercase()) => "",
                "resource" => RESOURCE,
                _ => sample,
            });
        }
        rest = after;
    }
    whole.push_str(rest);
    // A quoted string is one word.
    let mut is_quoted = false;
    let whole: String = whole
        .chars()
        .map(|mark| {
            is_quoted ^= mark == '\'';
            if is_quoted && mark == ' ' { '\0' } else { mark }
        })
        .collect();
    let filled = |word: &str| match word.trim_matches(['"', '\'']) {
        "HOST:PORT" => "127.0.0.1:7600".to_owned(),
        "RESOURCE" => RESOURCE.to_owned(),
        "ACTION:RESOURCE" => "admin:*".to_owned(),
        word if word.bytes().all(|byte| byte.is_ascii_uppercase()) => sample.to_owned(),
        word => word.replace('\0', " "),
    };
    whole.split_whitespace().map(filled).collect()
}

#[test]
fn ok_every_suggested_command_can_be_parsed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commands: Vec<String> = Cli::command()
        .get_subcommands()
        .flat_map(|command| {
            command.get_all_aliases().chain([command.get_name()]).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let mut paths = Vec::new();
    SOURCES.iter().for_each(|folder| files(&root.join(folder), &mut paths));
    let (mut seen, mut wrong) = (0, Vec::new());
    for path in paths.into_iter().filter(|path| !TIPS.iter().any(|tips| path.ends_with(tips))) {
        let source = fs::read_to_string(&path).expect("UTF-8");
        let mut texts = Vec::new();
        literals(source.parse().expect("Rust"), &mut texts);
        let texts = texts.iter().filter(|text| !LABELS.contains(&text.as_str()));
        for command in texts.flat_map(|text| suggested(text, &commands)) {
            seen += 1;
            let is_valid = SAMPLES.iter().any(|sample| Cli::try_parse_from(sampled(command, sample)).is_ok());
            if !is_valid {
                wrong.push(format!("{}: {command}", path.display()));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "of {seen}");
    assert!(seen > 80, "only {seen} were found");
}

#[test]
fn ok_a_command_is_found_within_a_sentence() {
    let commands = ["region", "clock"].map(str::to_owned);
    for (text, expected) in [
        ("it is sealed (kent region unseal {r}): wait", &["kent region unseal {r}"][..]),
        ("run `kent clock accept`, or `kent region ls`.", &["kent clock accept", "kent region ls"]),
        ("kent region ls     list them\nkent clock", &["kent region ls", "kent clock"]),
        ("the kent client, kentd region, and kent regions", &[]),
    ] {
        assert_eq!(suggested(text, &commands), expected, "{text}");
    }
    assert_eq!(sampled("kent region set {}{on} --cap N", "7"), ["kent", "region", "set", "7", "--cap", "7"]);
}
