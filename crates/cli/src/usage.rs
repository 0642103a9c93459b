//! Errors in the command line: tips, an example, and a usage line that does not depend on variables.

mod habits;

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use habits::{ALL_SPACES, LISTS, OF_DAEMON, OPTIONS, SPACE, SYNONYMS};

/// Options of `kent region create` whose values no later command can change.
const FIXED: [&str; 2] = ["order", "pace"];

/// Adds hints and an example to the error for a command line that `command` rejects.
pub(crate) fn improve(mut error: clap::Error, line: &[OsString], mut command: Command) -> clap::Error {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return error;
    }
    // A command knows its full name only after it is built.
    command.build();
    // The words after an unknown command are not commands.
    let unknown = text(&error, ContextKind::InvalidSubcommand);
    let end = line.iter().position(|word| unknown.is_some_and(|unknown| word == unknown)).unwrap_or(line.len());
    let path = path(&command, line.get(..end).unwrap_or(line));
    let mut tips = match error.kind() {
        ErrorKind::UnknownArgument => match corrected_argument(&error, line, &command, &path) {
            Some(tip) => vec![tip],
            None => unknown_option(&error, &command, &path),
        },
        ErrorKind::InvalidSubcommand => match reordered(&error, line, &command, &path) {
            Some(tip) => vec![tip],
            None => meant(&error, &path),
        },
        ErrorKind::ArgumentConflict => conflict(&error),
        _ => from_variable(&error, &path).into_iter().collect(),
    };
    let is_better = !tips.is_empty();
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue] {
        match near(&error, kind).filter(|_| !is_better) {
            Some(near) => drop(error.insert(kind, ContextValue::String(near))),
            None => drop(error.remove(kind)),
        }
    }
    let is_unknown =
        error.kind() == ErrorKind::InvalidSubcommand && error.get(ContextKind::SuggestedSubcommand).is_none();
    if is_unknown && !is_better {
        tips.push(format!("the commands of `{}` are {}", name(&path), commands(&path).join(", ")));
    }
    shorten(&mut error);
    let options = options(&error, &path);
    // A tip with the corrected command needs no other example.
    let is_corrected = tips.iter().any(|tip| tip.contains(": kent "));
    let example = path.iter().rev().find_map(|command| example(command, &options)).filter(|_| !is_corrected);
    tips.extend(example.map(|example| format!("for example: {example}")));
    let tips = tips.into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    // Replace clap's usage line, which also contains clap's suggestion and the options that environment variables set.
    if let Some(last) = path.last().filter(|_| error.get(ContextKind::Usage).is_some()) {
        error.insert(ContextKind::Usage, ContextValue::StyledStr((*last).clone().render_usage()));
    }
    error
}

/// Shortens a long value in the message.
fn shorten(error: &mut clap::Error) {
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    if let Cow::Owned(short) = kent_codec::shortened(value) {
        error.insert(ContextKind::InvalidValue, ContextValue::String(short));
    }
}

/// Returns the command that a line names and the commands that contain it, outermost first.
fn path<'c>(command: &'c Command, line: &[OsString]) -> Vec<&'c Command> {
    let mut path = vec![command];
    let mut words = line.iter().skip(1);
    while let Some(word) = words.next() {
        let has_value = |arg: &clap::Arg| {
            arg.get_action().takes_values() && arg.get_long().is_some_and(|long| *word == *format!("--{long}"))
        };
        // The value of an option is not a command.
        if path.iter().any(|command| command.get_arguments().any(has_value)) {
            words.next();
            continue;
        }
        let inner = path.last().and_then(|command| command.find_subcommand(word));
        path.extend(inner);
    }
    path
}

fn name(path: &[&Command]) -> String {
    path.iter().map(|command| command.get_name()).collect::<Vec<_>>().join(" ")
}

/// Returns the names of the commands inside a command.
fn commands(path: &[&Command]) -> Vec<String> {
    let inner = path.iter().copied().next_back().into_iter().flat_map(Command::get_subcommands);
    inner.filter(|inner| !inner.is_hide_set()).map(|inner| inner.get_name().to_owned()).collect()
}

/// Returns tips about an unknown option: which commands have it, or what to use instead.
fn unknown_option(error: &clap::Error, root: &Command, path: &[&Command]) -> Vec<String> {
    fn collect<'c>(command: &'c Command, path: &mut Vec<&'c Command>, option: &str, found: &mut Vec<String>) {
        path.push(command);
        if command.get_arguments().any(|arg| arg.get_long() == Some(option)) {
            found.push(format!("`{}`", name(path)));
        }
        command.get_subcommands().for_each(|inner| collect(inner, path, option, found));
        path.pop();
    }
    let typed = text(error, ContextKind::InvalidArg).unwrap_or_default();
    if name(path).starts_with("kent budget ")
        && typed.starts_with('-')
        && typed.ends_with(|last: char| last.is_ascii_digit())
    {
        return vec!["`kent budget set HOLDER RESOURCE TOTAL` sets a lower total".to_owned()];
    }
    let last = path.last().copied().unwrap_or(root);
    if last.get_arguments().any(|arg| arg.get_long() == Some("space")) {
        if ALL_SPACES.contains(&typed) {
            return vec![match last.get_arguments().any(|arg| arg.get_long() == Some("all-spaces")) {
                true => "for this, use --all-spaces, or -A".to_owned(),
                false => format!(
                    "`{}` works on one space, --space NAME; `kent space ls` lists all spaces, `kent region ls -A` their regions",
                    name(path)
                ),
            }];
        }
        if SPACE.contains(&typed) {
            return vec!["for this, use --space NAME".to_owned()];
        }
    }
    let Some(option) = typed.strip_prefix("--") else { return Vec::new() };
    if last.get_positionals().any(|arg| arg.get_id().as_str() == option) && option != "name" {
        return vec![format!("`{}` takes the {option} without --{option}", name(path))];
    }
    if name(path) == "kent region set" && FIXED.contains(&option) {
        return vec![format!("--{option} cannot be changed after the creation of a region")];
    }
    if let Some((_, other)) = OPTIONS.iter().find(|((group, word), _)| *word == option && name(path).starts_with(group))
    {
        return vec![format!("for this, use {other}")];
    }
    if OF_DAEMON.contains(&option) {
        return vec![format!(
            "--{option} is a setting of the daemon, `kentd --{option}`; `kent` calls a running daemon (--endpoint sets its address)"
        )];
    }
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    collect(root, &mut seen, option, &mut found);
    // The user most likely means a command of the same group.
    let group = path
        .get(..path.len().saturating_sub(1))
        .filter(|group| group.len() > 1)
        .map(|group| format!("`{} ", name(group)));
    let near: Vec<String> =
        found.iter().filter(|found| group.as_ref().is_some_and(|group| found.starts_with(group))).cloned().collect();
    match if near.is_empty() { found } else { near } {
        found if (1..=4).contains(&found.len()) => vec![format!("--{option} is an option of {}", found.join(" and "))],
        _ => Vec::new(),
    }
}

/// Returns a tip with the commands that an unknown name probably means.
fn meant(error: &clap::Error, path: &[&Command]) -> Vec<String> {
    let Some(typed) = text(error, ContextKind::InvalidSubcommand) else { return Vec::new() };
    if typed == "version" && path.len() == 1 {
        return vec!["for this, use an option: kent --version".to_owned()];
    }
    let synonyms = SYNONYMS.iter().find(|(word, _)| *word == typed).map_or(&[][..], |(_, meant)| *meant);
    let known = commands(path);
    let meant = synonyms.iter().find(|meant| known.iter().any(|name| name == *meant));
    let meant = meant.map(|meant| format!("{} {meant}", name(path)));
    // Otherwise, look for commands of this name in the groups.
    let groups = known.iter().filter(|group| *group != "help").filter_map(|group| path.last()?.find_subcommand(group));
    let full = |group: &Command| {
        let inner = group.find_subcommand(typed)?;
        Some(format!("{} {} {}", name(path), group.get_name(), inner.get_name()))
    };
    let inner: Vec<_> = groups.filter_map(full).collect();
    match meant.map_or(inner, |meant| vec![meant]) {
        meant if meant.is_empty() || meant.len() > 5 => Vec::new(),
        meant => vec![format!("the command for this is `{}`", meant.join("` or `"))],
    }
}

/// Returns a tip that corrects a command whose first two words are in the wrong order, such as `kent create region r`
/// or `kent get regions`.
fn reordered(error: &clap::Error, line: &[OsString], root: &Command, path: &[&Command]) -> Option<String> {
    let typed = text(error, ContextKind::InvalidSubcommand).filter(|_| path.len() == 1)?;
    let words = plain(line)?;
    let at = words.iter().position(|word| word == typed)?;
    let second = words.get(at + 1)?;
    let mut spellings = [Some(&**second), second.strip_suffix('s')].into_iter().flatten();
    let group =
        spellings.find_map(|name| root.find_subcommand(name)).filter(|group| group.get_name() != "help")?.clone();
    let inner = SYNONYMS.iter().find(|(word, _)| *word == typed).map_or(&[][..], |(_, meant)| *meant);
    // `get` and similar words may also mean `ls`.
    let names = [typed].into_iter().chain(inner.iter().copied()).chain(LISTS.contains(&typed).then_some("ls"));
    let mut lines = names.filter_map(|name| {
        let inner = group.find_subcommand(name)?.get_name().to_owned();
        let mut words = words.clone();
        words.splice(at..at + 2, [group.get_name().to_owned(), inner]);
        valid(root, &words)
    });
    lines.next().map(|command| format!("did you mean: {command}"))
}

/// Returns a tip with the unknown argument replaced by Kent's equivalent, if that gives a valid command.
fn corrected_argument(error: &clap::Error, line: &[OsString], root: &Command, path: &[&Command]) -> Option<String> {
    let unknown = text(error, ContextKind::InvalidArg)?;
    let words = plain(line)?;
    let at = words.iter().position(|word| word == unknown)?;
    let (before, after) = (words.get(..at)?, words.get(at + 1..)?);
    let with = |new: &[&str], after: &[String]| {
        let new = new.iter().map(|word| (*word).to_owned());
        valid(root, &before.iter().cloned().chain(new).chain(after.iter().cloned()).collect::<Vec<_>>())
    };
    if unknown == "--format" && after.first().is_some_and(|value| value == "json") {
        return with(&["--json"], after.get(1..)?).map(|command| format!("for this, use --json: {command}"));
    }
    let command = path.last()?;
    let has_space = command.get_arguments().any(|arg| arg.get_long() == Some("space"));
    if SPACE.contains(&unknown) && has_space {
        let value = after.first()?;
        return with(&["--space", value], after.get(1..)?).map(|command| format!("for this, use --space: {command}"));
    }
    if unknown.starts_with('-') {
        return None;
    }
    let without = format!("--no-{unknown}");
    if let Some((_, rest)) = before.split_last().filter(|(last, _)| *last == "--no-policy") {
        return valid(root, &[rest, std::slice::from_ref(&without), after].concat())
            .map(|command| format!("for this, use {without}: {command}"));
    }
    if let Some((kind, rest)) = before.split_last().filter(|(kind, _)| matches!(kind.as_str(), "region" | "serial"))
        && command.get_name() == "alloc"
    {
        let words = [rest, &[format!("{kind}:{unknown}")], after].concat();
        return valid(root, &words).map(|command| format!("a source is one word: {command}"));
    }
    if command.get_name() == "alloc" && unknown.bytes().all(|byte| byte.is_ascii_digit()) {
        return with(&["-n", unknown], after).map(|command| format!("the number is an option: {command}"));
    }
    // The name of a space may contain a dot, but a word with a dot is more likely to be a file.
    if name(path) == "kent table export" && (unknown.contains('.') || unknown.starts_with('/')) {
        return with(&[], after).map(|command| format!("the table goes to standard output: {command} > {unknown}"));
    }
    let is_space =
        has_space && command.get_positionals().next().is_none() && !words.iter().any(|word| word == "--space");
    let command = is_space.then(|| with(&["--space", unknown], after)).flatten()?;
    // The word may also be the name of a region.
    let of_region = match name(path).as_str() {
        "kent watch" => format!("; the edits of one region: kent region history {unknown}"),
        "kent region ls" => format!("; one region: kent region show {unknown}"),
        _ => String::new(),
    };
    Some(format!("the space is an option: {command}{of_region}"))
}

/// Returns the words of a command line, if none of them needs quoting in a shell.
fn plain(line: &[OsString]) -> Option<Vec<String>> {
    let is_plain = |word: &&str| {
        !word.is_empty() && word.chars().all(|mark| mark.is_alphanumeric() || "-_.,:/@%+=".contains(mark))
    };
    let words = line.iter().skip(1).map(|word| word.to_str().filter(is_plain).map(ToOwned::to_owned));
    [Some("kent".to_owned())].into_iter().chain(words).collect()
}

/// Joins the words into a command line. Returns `None` if the command line is not valid.
fn valid(root: &Command, words: &[String]) -> Option<String> {
    root.clone().try_get_matches_from(words).is_ok().then(|| words.join(" "))
}

/// Explains why two options exclude each other, if the reason is not obvious.
fn conflict(error: &clap::Error) -> Vec<String> {
    let options = [ContextKind::InvalidArg, ContextKind::PriorArg].map(|kind| text(error, kind).unwrap_or_default());
    let has = |option: &str| options.iter().any(|text| text.split(' ').next() == Some(option));
    let is_chunked = has("--strict") && has("--chunk");
    is_chunked
        .then(|| {
            "a strict region reserves no chunks: give one of the two, as in `kent region set invoices --strict`"
                .to_owned()
        })
        .into_iter()
        .collect()
}

/// Returns the short and the long form of the option in an error, each between spaces, as in an example.
fn options(error: &clap::Error, path: &[&Command]) -> Vec<String> {
    let named = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let long = named.split([' ', '=', '[']).next().unwrap_or_default();
    let arg = path.iter().rev().flat_map(|command| command.get_arguments());
    let mut arg = arg.filter(|arg| arg.get_long().is_some_and(|name| long.strip_prefix("--") == Some(name)));
    let short = arg.next().and_then(|arg| arg.get_short()).map(|short| format!(" -{short} "));
    short.into_iter().chain((!long.is_empty()).then(|| format!(" {long} "))).collect()
}

/// Returns an example from a command's help: one that uses any of these options, or else the first one.
fn example(command: &Command, options: &[String]) -> Option<String> {
    let help = command.get_after_help()?.to_string();
    let examples = help.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("Example: ");
        line.starts_with("kent ").then(|| line.split("   ").next().unwrap_or(line).trim_end())
    });
    let examples: Vec<&str> = examples.collect();
    let about = examples.iter().find(|example| options.iter().any(|option| example.contains(option)));
    about.or(examples.first()).map(|example| (*example).to_owned())
}

/// Returns a tip if the invalid value comes from an environment variable.
fn from_variable(error: &clap::Error, path: &[&Command]) -> Option<String> {
    let (arg, value) = (text(error, ContextKind::InvalidArg)?, text(error, ContextKind::InvalidValue)?);
    let mut args = path.iter().rev().flat_map(|command| command.get_arguments());
    let variable = args.find(|known| known.to_string() == arg)?.get_env()?;
    let is_its_value = env::var_os(variable).is_some_and(|text| text == value);
    is_its_value.then(|| format!("the value comes from the variable {}", variable.to_string_lossy()))
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        ContextValue::Strings(texts) => texts.first().map(String::as_str),
        _ => None,
    }
}

/// Returns clap's suggestion, unless more than a third of its letters differ from the typed text.
fn near(error: &clap::Error, kind: ContextKind) -> Option<String> {
    let typed = match kind {
        ContextKind::SuggestedArg => ContextKind::InvalidArg,
        ContextKind::SuggestedSubcommand => ContextKind::InvalidSubcommand,
        _ => ContextKind::InvalidValue,
    };
    let typed = text(error, typed)?.trim_start_matches('-');
    let suggested = match error.get(kind)? {
        ContextValue::String(text) => std::slice::from_ref(text),
        ContextValue::Strings(texts) => texts,
        _ => return None,
    };
    let distance = |text: &&String| strsim::damerau_levenshtein(text.trim_start_matches('-'), typed);
    let nearest = suggested.iter().min_by_key(distance)?;
    let letters = nearest.trim_start_matches('-').chars().count();
    (distance(&nearest) * 3 <= letters).then(|| nearest.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    fn message(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = settings::command(None).try_get_matches_from(&words).expect_err(line);
        improve(error, &words, settings::command(None)).render().to_string()
    }

    #[test]
    fn ok_a_tip_names_a_command_that_helps() {
        for (line, tips) in [
            (
                "kent region set r --order scrambled",
                &["--order cannot be changed after the creation of a region", "kent region set orders"][..],
            ),
            (
                "kent region create r --suffix 4 --owner ops",
                &["--owner is an option of `kent region ask` and `kent region set`"],
            ),
            (
                "kent completions tcsh",
                &["possible values: bash, elvish, fish, powershell, zsh", "for example: kent completions fish"],
            ),
            ("kent create region o2 --suffix 20", &["did you mean: kent region create o2 --suffix 20\n"]),
            ("kent remove region o2", &["did you mean: kent region delete o2\n"]),
            ("kent create region o2", &["`kent region create`"]),
            ("kent describe region q", &["did you mean: kent region show q\n"]),
            ("kent get regions", &["did you mean: kent region ls\n"]),
            ("kent list spaces", &["did you mean: kent space ls\n"]),
            ("kent get region q", &["did you mean: kent region show q\n"]),
            ("kent get tokens -o json", &["did you mean: kent token ls -o json\n"]),
            ("kent version", &["for this, use an option: kent --version\n"]),
            ("kent ping", &["the command for this is `kent status`"]),
            ("kent snapshot", &["the command for this is `kent backup`"]),
            ("kent --token kent_x status", &["for this, use --token-file FILE, because other users"]),
            ("kent status --token kent_x", &["for this, use --token-file FILE, because other users"]),
            ("kent describe q", &["the command for this is `kent region show`"]),
            ("kent alloc region orders -n 5", &["a source is one word: kent alloc region:orders -n 5\n"]),
            ("kent alloc xid 10", &["the number is an option: kent alloc xid -n 10\n"]),
            (
                "kent region ls parts -o wide",
                &["the space is an option: kent region ls --space parts -o wide; one region: kent region show parts\n"],
            ),
            ("kent table export parts", &["the space is an option: kent table export --space parts\n"]),
            ("kent table export out.jsonl", &["goes to standard output: kent table export > out.jsonl\n"]),
            ("kent table export /tmp/out --at 7", &["standard output: kent table export --at 7 > /tmp/out\n"]),
            (
                "kent watch parts",
                &["is an option: kent watch --space parts; the edits of one region: kent region history parts\n"],
            ),
            ("kent status -o yaml", &["possible values: text, json"]),
            ("kent inspect --format json 5", &["for this, use --json: kent inspect --json 5\n"]),
            ("kent region create eu --suffix 10 --parent orders", &["for this, use `kent region subdivide`"]),
            ("kent region set r --pace 10", &["--pace cannot be changed after the creation of a region"]),
            ("kent clock trust", &["`kent clock accept`"]),
            ("kent series delete serial:A", &["`kent series forget`"]),
            ("kent series remove serial:A", &["`kent series forget`"]),
            ("kent region remove r", &["`kent region delete`"]),
            (
                "kent region set r --strict --chunk 1:2",
                &["a strict region reserves no chunks: give one of the two, as in `kent region set"],
            ),
            (
                "kent region set r --chunk 1:2 --strict",
                &["a strict region reserves no chunks: give one of the two, as in `kent region set"],
            ),
            ("kent undo", &["the command for this is `kent region undo`"]),
            ("kent region frobnicate", &["the commands of `kent region` are ls, tree, show, create"]),
            ("kent region creat r", &["a similar subcommand exists: 'create'"]),
            ("kent region create r --sufix 4", &["a similar argument exists: '--suffix'"]),
            ("kent region create r --suffix x", &["such as 40", "for example: kent region create orders --suffix 40"]),
            ("kent region create r", &["--suffix <S>", "for example: kent region create orders --suffix 40"]),
            (
                "kent region create r --suffix 4 --order random",
                &["for example: kent region create employees --suffix 20 --order external"],
            ),
            ("kent alloc uuidv7 -n 0", &["for example: kent alloc xid -n 1M > ids.txt"]),
            ("kent alloc uuidv7 --size 4", &["for this, use -n", "Usage: kent alloc [OPTIONS] <SOURCE>"]),
            ("kent region set r --name x", &["for this, use `kent region rename`"]),
            ("kent space free --space parts", &["`kent space free` takes the space without --space"]),
            ("kent region set r --order x", &["Usage: kent region set [OPTIONS] <NAME>"]),
            ("kent region ls -n parts", &["for this, use --space: kent region ls --space parts\n"]),
            ("kent region ls --namespace parts --json", &["kent region ls --space parts --json\n"]),
            ("kent region ls -n", &["for this, use --space NAME"]),
            ("kent region ls --all-namespaces", &["for this, use --all-spaces, or -A"]),
            ("kent region tree --all-namespaces", &["`kent region tree` works on one space"]),
            ("kent backup --data d", &["--data is a setting of the daemon, `kentd --data`", "--endpoint"]),
            ("kent status --listen 127.0.0.1:1", &["`kentd --listen`", "--endpoint"]),
            ("kent --endpoint alloc uuidv7", &["the commands of `kent` are alloc"]),
            ("kent region set r --label a=1,b=2", &["one label: repeat it, as in --label a=1 --label b=2"]),
        ] {
            let message = message(line);
            tips.iter().for_each(|tip| assert!(message.contains(tip), "{line}: {message}"));
        }
        for (line, poor) in [
            ("kent region set r --order scrambled", "'--owner'"),
            ("kent completions tcsh", "similar"),
            ("kent create region $r --suffix 20", "kent region create $r"),
            ("kent create o2", "help create"),
            ("kent status -o yaml", "--json: kent"),
            ("kent clock trust", "similar"),
            ("kent series delete serial:A", "similar"),
            ("kent delete region r", "delegate"),
        ] {
            assert!(!message(line).contains(poor), "{line}: {}", message(line));
        }
    }

    /// By default, clap shows options that environment variables set in the usage line.
    #[test]
    fn ok_a_usage_line_does_not_depend_on_variables() {
        let line = ["kent", "region", "show"].map(OsString::from);
        let message = |option: &str, variable: &'static str| {
            let set = || {
                settings::each_command(settings::command(None), &|command| {
                    command.mut_args(|arg| if arg.get_id() == option { arg.env(variable) } else { arg })
                })
            };
            let error = set().try_get_matches_from(&line).expect_err("refused");
            improve(error, &line, set()).render().to_string()
        };
        let usage = message("space", "CARGO_PKG_NAME");
        assert!(usage.contains("Usage: kent region show [OPTIONS] <NAME>\n"), "{usage}");
        let invalid = message("endpoint", "CARGO_PKG_VERSION");
        assert!(invalid.contains("tip: the value comes from the variable CARGO_PKG_VERSION"), "{invalid}");
    }
}
