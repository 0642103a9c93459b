//! A custom layout of a daemon, parsed: its text form, and its way to explain an identifier.

use kent_client::Daemon;
use kent_codec::{Detector, Inspection, VerbError, inspect_layout};
use kent_ids::{
    ClockSeq, ClusterKey, Node, Slot, SlotConstants, SlotEpoch, UnixNanos,
    layout::{Granted, Layout, LayoutConstants, Spelling},
};
use kent_proto::v1::{self, GetLayoutRequest};

use crate::connect::request;
use crate::failure::Failure;
use crate::number::Form;

/// Returns a layout of the daemon.
pub(crate) async fn get(name: &str, daemon: &Daemon) -> Result<Known, Failure> {
    let message = GetLayoutRequest { name: name.to_owned() };
    Known::of(&daemon.layouts().get_layout(request(message)).await?.into_inner())
}

/// A layout of the daemon, parsed.
#[derive(Debug)]
pub(crate) struct Known {
    name: String,
    pub(crate) layout: Layout,
    spelling: Spelling,
}

impl Known {
    /// Parses the message of a layout.
    pub(crate) fn of(message: &v1::Layout) -> Result<Self, Failure> {
        let unknown = || Failure::Answer(format!("this version of kent cannot read the layout {:?}", message.name));
        Ok(Self {
            name: message.name.clone(),
            layout: message.fields.parse().map_err(|_| unknown())?,
            spelling: message.text.parse().map_err(|_| unknown())?,
        })
    }

    /// Returns a reader of the layout's identifiers.
    pub(crate) fn detector(&self) -> Detector {
        Detector::of_layout(self.layout.clone(), self.spelling.clone())
    }

    /// Returns how identifiers are written.
    pub(crate) fn form(self) -> Form {
        Form::Layout(self.spelling, self.layout.bits())
    }

    /// Explains an identifier.
    pub(crate) fn inspect(&self, text: &str) -> Result<Inspection, VerbError> {
        inspect_layout(text, &format!("layout:{}", self.name), &self.layout, &self.spelling)
    }

    /// Returns an identifier that slot 0 could issue at `now`, or `None` after the end of the layout's time.
    pub(crate) fn example(&self, now: UnixNanos) -> Option<String> {
        let slot = Slot::new(0).ok()?;
        let granted = Granted::Slot(SlotConstants {
            slot,
            epoch: SlotEpoch::new(0),
            node: Node::for_slot(0, slot),
            clock_seq: ClockSeq::from_random(0),
            key: ClusterKey::new([0; 16]),
        });
        let constants = LayoutConstants { layout: self.layout.clone(), granted, tag: 0 };
        let value = Layout::encode(&constants, self.layout.line()?.floor(now)?, 0).ok()?;
        Some(self.spelling.text(value, self.layout.bits()))
    }
}
