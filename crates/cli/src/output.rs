//! Standard output: text for people or one JSON object per line for programs, in color only on a terminal, and in plain
//! ASCII if the locale requires it.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Stdout, Write};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::charset;
use crate::failure::Failure;
use crate::prefix::PrefixFormat;
use crate::reach::Reach;

/// Returns whether the caller closed standard output (`>&-`). The standard library opens /dev/null for reading and
/// writing in its place. A redirection in a shell opens /dev/null only for writing.
pub(crate) fn is_closed() -> bool {
    let stdout = rustix::stdio::stdout();
    let is_null = rustix::fs::fstat(stdout).is_ok_and(|stat| stat.st_rdev == rustix::fs::makedev(1, 3));
    let access = rustix::fs::fcntl_getfl(stdout).map(|flags| flags & rustix::fs::OFlags::RWMODE);
    is_null && access == Ok(rustix::fs::OFlags::RDWR)
}

/// Buffered standard output. Call [`Out::flush`] before waiting, so that the reader gets everything written so far.
pub(crate) struct Out {
    json: bool,
    palette: Palette,
    /// The options that a suggested command needs to reach the same daemon.
    reach: Reach,
    /// The width of the terminal, if standard output is a terminal and the user has not chosen the format of prefixes.
    fit: Option<usize>,
    stream: BufWriter<Stdout>,
}

impl Out {
    pub(crate) fn new(json: bool, prefixes: Option<PrefixFormat>, reach: Reach) -> Self {
        let stdout = io::stdout();
        // anstream checks NO_COLOR, CLICOLOR, TERM=dumb and whether standard output is a terminal. clap already depends
        // on anstream.
        let color = AutoStream::choice(&stdout) != ColorChoice::Never;
        let width = || terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        let fit = if prefixes.is_none() { width() } else { None };
        let palette = Palette { color, ascii: charset::is_ascii(), prefixes: prefixes.unwrap_or_default() };
        Self { json, palette, reach, fit, stream: BufWriter::new(stdout) }
    }

    /// Returns true with `--json`: one JSON object per line.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn palette(&self) -> Palette {
        self.palette
    }

    /// Writes one JSON object and a line feed.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.stream, value).map_err(|error| Failure::Output(error.into()))?;
        self.text("\n")
    }

    /// Writes text with prefixes, which are shortened if a line is wider than the terminal.
    pub(crate) fn fitted(&mut self, render: impl Fn(Palette) -> String) -> Result<(), Failure> {
        let palette = self.fitting(&render);
        self.text(&render(palette))
    }

    /// Returns the palette with which this text fits the terminal.
    pub(crate) fn fitting(&self, render: impl Fn(Palette) -> String) -> Palette {
        match self.fit {
            Some(width) if is_wider(&render(self.palette), width) => {
                Palette { prefixes: PrefixFormat::Hex, ..self.palette }
            }
            _ => self.palette,
        }
    }

    /// Writes text, which contains its own line feeds. Adds to each suggested command the options that it needs to
    /// reach the same daemon.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        if self.json {
            return self.write(text);
        }
        let text = self.reach.add_to(text);
        // Only text depends on the locale: JSON is always UTF-8.
        self.write(if self.palette.ascii { charset::to_ascii(&text) } else { text.into() }.as_ref())
    }

    /// Returns a message for standard error, in which the suggested commands reach the same daemon.
    pub(crate) fn reaching(&self, message: &str) -> String {
        self.reach.add_to(message)
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.stream.write_all(text.as_bytes()).map_err(Failure::Output)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stream.flush().map_err(Failure::Output)
    }
}

/// Returns whether a line has more than `width` columns. Every character that kent prints takes one column.
fn is_wider(text: &str, width: usize) -> bool {
    text.lines().any(|line| strip_str(line).to_string().chars().count() > width)
}

/// The appearance of text: in colors or plain, in Unicode or ASCII, and with the chosen format of prefixes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Palette {
    pub(crate) color: bool,
    /// Whether drawings use only ASCII.
    pub(crate) ascii: bool,
    pub(crate) prefixes: PrefixFormat,
}

/// The meaning of a piece of text, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Heading,
    /// Text of minor importance.
    Faint,
    Good,
    Warning,
    Bad,
    /// A part of a drawing. The index, modulo the number of colors, selects the color.
    Part(usize),
}

impl Palette {
    /// Without colors.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { color: false, ascii: false, prefixes: PrefixFormat::Bits };

    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        let mut painted = String::new();
        if !text.is_empty() {
            self.paint_onto(&mut painted, role, |painted| painted.push_str(text));
        }
        painted
    }

    /// Paints the text that `write` appends, which must not be empty.
    pub(crate) fn paint_onto(self, text: &mut String, role: Role, write: impl FnOnce(&mut String)) {
        if !self.color || role == Role::Plain {
            return write(text);
        }
        let style = role.style();
        let _ = write!(text, "{style}"); // writing to a string cannot fail
        write(text);
        let _ = write!(text, "{style:#}");
    }
}

impl Role {
    fn style(self) -> Style {
        const PARTS: [AnsiColor; 5] =
            [AnsiColor::Cyan, AnsiColor::Yellow, AnsiColor::Magenta, AnsiColor::Green, AnsiColor::Blue];
        match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Part(index) => PARTS[index % PARTS.len()].on_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_prefixes_are_short_where_bits_do_not_fit() {
        let render = |palette: Palette| palette.paint(Role::Good, &palette.prefixes.text("101101110000000100000001"));
        for (fit, expected) in
            [(None, "101101110000000100000001"), (Some(24), "101101110000000100000001"), (Some(23), "0xb70101/24")]
        {
            let palette = Palette { color: true, ..Palette::PLAIN };
            let out = Out { json: false, palette, reach: Reach::default(), fit, stream: BufWriter::new(io::stdout()) };
            assert_eq!(strip_str(&render(out.fitting(render))).to_string(), expected, "{fit:?}");
        }
    }
}
