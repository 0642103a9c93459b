//! The characters of drawings: box characters, or plain ASCII if the locale says that the terminal does not show UTF-8.

use std::borrow::Cow;
use std::env;
use std::sync::OnceLock;

/// Returns whether the locale of this process has a character set other than UTF-8.
///
/// A locale that is not set at all counts as UTF-8, as in systemd's programs: containers and services often have no locale.
pub(crate) fn is_ascii() -> bool {
    static IS_ASCII: OnceLock<bool> = OnceLock::new();
    *IS_ASCII.get_or_init(|| is_ascii_in(|name| env::var(name).ok()))
}

/// Of these variables, the first one that is not empty determines the character set.
const VARIABLES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

fn is_ascii_in(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = VARIABLES.into_iter().filter_map(variable).find(|locale| !locale.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        !locale.contains("utf-8") && !locale.contains("utf8")
    })
}

/// Returns the text in characters that the locale can show.
pub(crate) fn show(text: &str) -> Cow<'_, str> {
    if is_ascii() { to_ascii(text) } else { text.into() }
}

/// Replaces the characters of kent's drawings with ASCII. Keeps other characters, such as those of a region's
/// description.
pub(crate) fn to_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '─' | '–' | '—' => plain.push('-'),
            '│' => plain.push('|'),
            '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴' | '┼' => plain.push('+'),
            '█' => plain.push('#'),
            '▏' | '▎' | '▍' | '▌' | '▋' | '▊' | '▉' => plain.push('-'),
            '░' => plain.push('.'),
            '→' => plain.push_str("->"),
            '…' => plain.push_str("..."),
            '±' => plain.push_str("+/-"),
            '×' => plain.push('x'),
            'µ' => plain.push('u'),
            other => plain.push(other),
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_locales() {
        for (variables, expected) in [
            (&[][..], false),
            (&[("LANG", "C")], true),
            (&[("LANG", "POSIX")], true),
            (&[("LANG", "C.UTF-8")], false),
            (&[("LANG", "de_DE.utf8")], false),
            (&[("LANG", "en_US.ISO-8859-1")], true),
            (&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")], true),
            (&[("LANG", "en_US.UTF-8"), ("LC_CTYPE", "POSIX")], true),
            (&[("LANG", "C"), ("LC_ALL", ""), ("LC_CTYPE", "UTF-8")], false),
        ] {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
            assert_eq!(is_ascii_in(variable), expected, "{variables:?}");
        }
    }

    #[test]
    fn ok_drawings_keep_their_width() {
        for (text, expected) in [
            ("│  └─ de", "|  +- de"),
            ("██▌░ 62 %", "##-. 62 %"),
            ("7 → 8", "7 -> 8"),
            ("Köln – a…", "Köln - a..."),
            ("± 3 µs", "+/- 3 us"),
        ] {
            assert_eq!(to_ascii(text), expected);
        }
    }
}
