//! Standard output: text for people or one JSON object per line for programs, in colour only on a terminal, and in plain ASCII if
//! the locale requires it.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Stdout, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::charset;
use crate::failure::Failure;

/// Buffered standard output. Call [`Out::flush`] before waiting, so that the reader gets everything written so far.
pub(crate) struct Out {
    json: bool,
    palette: Palette,
    stream: BufWriter<Stdout>,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let stdout = io::stdout();
        // anstream checks NO_COLOR, CLICOLOR, TERM=dumb and whether this is a terminal. clap depends on it already.
        let colour = AutoStream::choice(&stdout) != ColorChoice::Never;
        Self { json, palette: Palette { colour, ascii: charset::is_ascii() }, stream: BufWriter::new(stdout) }
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

    /// Writes text, which contains its own line feeds.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        // JSON is UTF-8 in every locale.
        let text = if self.palette.ascii && !self.json { charset::to_ascii(text) } else { text.into() };
        self.stream.write_all(text.as_bytes()).map_err(Failure::Output)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stream.flush().map_err(Failure::Output)
    }
}

/// Paints text in colours, or leaves it plain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Palette {
    pub(crate) colour: bool,
    /// Drawings use only ASCII.
    pub(crate) ascii: bool,
}

/// The meaning of a piece of text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Heading,
    /// Text of minor importance.
    Faint,
    Good,
    Warning,
    Bad,
    /// A part of a drawing, with the colour of this index modulo the number of colours.
    Part(usize),
}

impl Palette {
    /// Without colours.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false, ascii: false };

    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        let mut painted = String::new();
        if !text.is_empty() {
            self.paint_onto(&mut painted, role, |painted| painted.push_str(text));
        }
        painted
    }

    /// Paints the text that `write` appends, which must not be empty.
    pub(crate) fn paint_onto(self, text: &mut String, role: Role, write: impl FnOnce(&mut String)) {
        if !self.colour || role == Role::Plain {
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
