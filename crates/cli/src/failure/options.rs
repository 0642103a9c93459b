//! Maps fields of the API to the options of `kent` that set them, so that an error names the option that the user
//! typed.

/// Fields, and the options that set them. The option is empty for a field that no option sets. Fields that are not
/// listed keep their names in messages.
const OPTIONS: [(&str, &str); 32] = [
    ("after_revision", "--after"),
    ("at_least_bits", "--at-least"),
    ("at_revision", "--at"),
    ("bits", "--bits"),
    ("by_bits", "--by"),
    ("count", "-n"),
    ("description", ""),
    ("expected_revision", "--expect-revision"),
    ("identifiers", ""),
    ("name", ""),
    ("new_regions", "--new"),
    ("next", "--next"),
    ("note", "--reason"),
    ("order", "--order"),
    ("pace", "--pace"),
    ("parent", ""),
    ("policy", ""),
    ("prefix", "--prefix"),
    ("reason", "--reason"),
    ("region_id", ""),
    ("regions", ""),
    ("request_id", "--request-id"),
    ("set_labels", "--label"),
    ("source", ""),
    ("space_id", ""),
    ("split_donor", "--split-donor"),
    ("suffix_bits", ""),
    ("suffixes", ""),
    ("text_form", "--text"),
    ("texts", ""),
    ("valid_seconds", "--expires"),
    ("zone_bits", "--zone"),
];

/// A problem that begins with one of these words forms a sentence with the name of the field before it.
const VERBS: [&str; 7] = ["does ", "has ", "is ", "must ", "names ", "needs ", "was "];

/// Replaces the field at the beginning of the message with its option, if the field is one of `fields`.
pub(super) fn in_place_of<'f>(mut fields: impl Iterator<Item = &'f str>, message: String) -> String {
    let found = fields.find_map(|field| {
        let problem = message.strip_prefix(field)?.strip_prefix(": ")?;
        let (_, option) = OPTIONS.iter().find(|(known, _)| *known == field)?;
        Some((*option, problem))
    });
    match found {
        None => message,
        Some((option, problem)) if !VERBS.iter().any(|verb| problem.starts_with(verb)) => match option {
            "" => problem.to_owned(),
            option => format!("{option}: {problem}"),
        },
        // Keep the field's name, because the sentence needs a subject.
        Some(("", _)) => message,
        Some((option, problem)) => format!("{option} {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_message_names_the_option() {
        for (fields, message, expected) in [
            (
                &["by_bits"][..],
                "by_bits: the number of bits must be at least 1",
                "--by: the number of bits must be at least 1",
            ),
            (&["bits"], "bits: is 129, but must be 1 to 128", "--bits is 129, but must be 1 to 128"),
            (&["note"], "note: is empty: say why", "--reason is empty: say why"),
            (&["valid_seconds"], "valid_seconds: is 60 s, but", "--expires is 60 s, but"),
            (&["policy"], "policy: the smallest chunk must have 1", "the smallest chunk must have 1"),
            (&["page_token"], "page_token: is not a page token", "page_token: is not a page token"),
            (&["source"], "source: is strange", "source: is strange"),
            (&["orders"], "orders: is sealed", "orders: is sealed"),
            (&[], "bits: is 129", "bits: is 129"),
        ] {
            assert_eq!(in_place_of(fields.iter().copied(), message.to_owned()), expected);
        }
    }

    #[test]
    fn ok_every_option_exists() {
        use clap::CommandFactory;

        fn collect(command: &clap::Command, found: &mut Vec<String>) {
            found.extend(command.get_arguments().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")));
            found.extend(command.get_arguments().filter_map(|arg| arg.get_short()).map(|short| format!("-{short}")));
            command.get_subcommands().for_each(|inner| collect(inner, found));
        }
        let mut found = Vec::new();
        collect(&crate::args::Cli::command(), &mut found);
        let missing = OPTIONS.iter().filter(|(_, option)| !option.is_empty() && !found.iter().any(|it| it == option));
        assert_eq!(missing.count(), 0);
    }
}
