//! Standard output: text for people or one JSON object a line for programs, colour only where it is seen.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Stdout, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::failure::Failure;

/// Standard output, buffered. Call [`Out::flush`] where a reader may be waiting.
pub(crate) struct Out {
    json: bool,
    palette: Palette,
    stream: BufWriter<Stdout>,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let stdout = io::stdout();
        // anstream knows NO_COLOR, CLICOLOR, TERM=dumb and terminals; clap already brings it along.
        let colour = AutoStream::choice(&stdout) != ColorChoice::Never;
        Self { json, palette: Palette { colour }, stream: BufWriter::new(stdout) }
    }

    /// True if a program reads: one JSON object a line.
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

    /// Writes text that ends its own lines.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.stream.write_all(text.as_bytes()).map_err(Failure::Output)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stream.flush().map_err(Failure::Output)
    }
}

/// The colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) colour: bool,
}

/// What a piece of text is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Heading,
    /// What the eye may skip.
    Faint,
    Good,
    Warning,
    Bad,
    /// The parts of a drawing, told apart by their colours: the number is taken modulo their count.
    Part(usize),
}

impl Palette {
    /// Without colours.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false };

    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        let mut painted = String::new();
        if !text.is_empty() {
            self.paint_onto(&mut painted, role, |painted| painted.push_str(text));
        }
        painted
    }

    /// Paints what `write` appends to the text, which is something.
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
