//! Misspelled settings and variables: unknown names that are close to a known one.

use clap::{Arg, Args as _, Command};

use super::Settings;

/// Variables that `kent` and `kentd` read besides the settings.
const OTHER_VARIABLES: [&str; 11] = [
    "KENT_CA",
    "KENT_CERT",
    "KENT_CLIENT_CONFIG",
    "KENT_COMPLETE",
    "KENT_CONFIG",
    "KENT_CONTEXT",
    "KENT_ENDPOINT",
    "KENT_KEY",
    "KENT_PRINCIPAL",
    "KENT_REQUEST_TIMEOUT",
    "KENT_SPACE",
];

/// Returns the setting that an unknown key of a file probably means, if one has a similar name.
pub(super) fn setting(key: &str) -> Option<String> {
    let known: Vec<String> = options().filter_map(|arg| arg.get_long().map(ToOwned::to_owned)).collect();
    near(&key.replace('_', "-"), &known)
}

/// Returns the setting of this name, as an option of the command line.
pub(super) fn known(key: &str) -> Option<Arg> {
    options().find(|arg| arg.get_long() == Some(key))
}

/// Returns the misspelled variables: those that neither program reads but that resemble a known one. Each comes with
/// the known variable that was probably meant.
pub(crate) fn misspelt_variables(names: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let settings = options().filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned()));
    let known: Vec<String> = settings.chain(OTHER_VARIABLES.map(ToOwned::to_owned)).collect();
    let ours = names.filter(|name| name.starts_with("KENT_") && !known.contains(name));
    ours.filter_map(|name| near(&name, &known).map(|near| (name, near))).collect()
}

/// All settings, as options of the command line.
pub(super) fn options() -> impl Iterator<Item = Arg> {
    Settings::augment_args(Command::new("kentd")).get_arguments().cloned().collect::<Vec<_>>().into_iter()
}

/// Whether the value of an option is a list.
pub(crate) fn is_list(arg: &Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.ends_with(",...")))
}

/// Returns the nearest name, if at most a third of its letters differ. The prefix `KENT_` of variables is not compared.
fn near(typed: &str, known: &[String]) -> Option<String> {
    let bare = |name: &str| name.trim_start_matches("KENT_").to_owned();
    let distance = |name: &&String| strsim::damerau_levenshtein(&bare(name), &bare(typed));
    let nearest = known.iter().min_by_key(distance)?;
    (distance(&nearest) * 3 <= bare(nearest).chars().count()).then(|| nearest.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_near_name_is_found() {
        for (key, expected) in [
            ("lisen", Some("listen")),
            ("packed_bytes", Some("packed-bytes")),
            ("tls-crt", Some("tls-cert")),
            ("colour", None),
        ] {
            assert_eq!(setting(key).as_deref(), expected, "{key}");
        }
        let names = ["KENT_LISEN", "KENT_LISTEN", "KENT_SPACE", "KENT_SERVICE_HOST", "HOME", "KENT_TLS_KEYS"];
        let found = misspelt_variables(names.map(ToOwned::to_owned).into_iter());
        let expected = [("KENT_LISEN", "KENT_LISTEN"), ("KENT_TLS_KEYS", "KENT_TLS_KEY")];
        assert_eq!(found, expected.map(|(name, near)| (name.to_owned(), near.to_owned())));
    }
}
