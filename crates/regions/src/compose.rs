//! Converts suffixes to identifiers, `prefix | zeros | suffix`, and back.

use alloc::string::{String, ToString};

use thiserror::Error;

use crate::{
    prefix::Prefix,
    region::{Kind, Region},
};

/// An error from [`Region::compose`] or [`Region::decompose`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotComposed {
    /// The region is closed, so only its subregions have identifiers.
    #[error("region {region:?} is closed: use one of its subregions")]
    Closed {
        /// The region.
        region: String,
    },
    /// The suffix has too many bits.
    #[error("{suffix} does not fit the {bits} bits of the suffix of {region:?}")]
    Suffix {
        /// The suffix.
        suffix: u128,
        /// The width of the region's suffixes in bits.
        bits: u8,
        /// The region.
        region: String,
    },
    /// The identifier does not begin with the region's prefix, or has more bits than the space.
    #[error("{id} does not begin with {prefix:#}, the prefix of {region:?}")]
    Prefix {
        /// The identifier.
        id: u128,
        /// The region's prefix.
        prefix: Prefix,
        /// The region.
        region: String,
    },
    /// At least one bit of the identifier's expansion zone is 1.
    #[error("{id} is not an identifier of {region:?}: at least one bit of its expansion zone is 1, but must be 0")]
    Zone {
        /// The identifier.
        id: u128,
        /// The region.
        region: String,
    },
}

impl Region {
    /// Converts a suffix to an identifier in a space of `bits` bits.
    ///
    /// # Errors
    ///
    /// Returns [`NotComposed`] if the conversion is not possible.
    pub fn compose(&self, suffix: u128, bits: u8) -> Result<u128, NotComposed> {
        self.check_composing()?;
        match self.capacity().includes(suffix) {
            true => Ok(self.prefix.base(bits) | suffix),
            false => Err(NotComposed::Suffix { suffix, bits: self.suffix, region: self.name.to_string() }),
        }
    }

    /// Converts an identifier in a space of `bits` bits to its suffix.
    ///
    /// # Errors
    ///
    /// Returns [`NotComposed`] if the conversion is not possible.
    pub fn decompose(&self, id: u128, bits: u8) -> Result<u128, NotComposed> {
        self.check_composing()?;
        if !self.prefix.holds(id, bits) || bits < 128 && id >> bits != 0 {
            return Err(NotComposed::Prefix { id, prefix: self.prefix, region: self.name.to_string() });
        }
        let suffix = id ^ self.prefix.base(bits);
        match self.capacity().includes(suffix) {
            true => Ok(suffix),
            false => Err(NotComposed::Zone { id, region: self.name.to_string() }),
        }
    }

    fn check_composing(&self) -> Result<(), NotComposed> {
        match self.kind {
            Kind::Open | Kind::Partial => Ok(()),
            Kind::Closed => Err(NotComposed::Closed { region: self.name.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{Count, Edit, Order, Place, RegionNumber, Start, Table};

    #[test]
    fn ok_decompose_inverts_compose_and_rejects_all_else() {
        let mut table = Table::new(16).expect("a width");
        let place = Place::At("0101".parse().expect("a prefix"));
        let (order, next) = (Order::Sequential, Count::ZERO);
        let create =
            Edit::Create { name: "r".to_string(), suffix: 8, place, start: Start { next, order, ..Start::default() } };
        let plan = table.plan(&create).expect("legal");
        table.apply(&plan).expect("applied");
        let region = table.get(RegionNumber(1)).expect("made");
        for suffix in 0..=u128::from(u16::MAX) {
            match region.compose(suffix, 16) {
                Ok(id) => assert_eq!((suffix < 256, id, region.decompose(id, 16)), (true, 0x5000 | suffix, Ok(suffix))),
                Err(refused) => {
                    assert_eq!(refused, NotComposed::Suffix { suffix, bits: 8, region: "r".to_string() });
                    assert!(suffix >= 256);
                }
            }
            let expected = match suffix >> 12 {
                5 if suffix & 0xf00 == 0 => Ok(suffix & 0xff),
                5 => Err(NotComposed::Zone { id: suffix, region: "r".to_string() }),
                _ => Err(NotComposed::Prefix { id: suffix, prefix: region.prefix, region: "r".to_string() }),
            };
            assert_eq!(region.decompose(suffix, 16), expected);
        }
        assert!(matches!(region.decompose(1 << 16 | 0x5000, 16), Err(NotComposed::Prefix { .. })));
        let closed = Region { kind: Kind::Closed, ..region.clone() };
        assert_eq!(closed.compose(0, 16), Err(NotComposed::Closed { region: "r".to_string() }));
        assert_eq!(closed.decompose(0x5000, 16), Err(NotComposed::Closed { region: "r".to_string() }));
    }

    #[test]
    fn ok_identifiers_of_the_widest_space_round_trip() {
        let mut table = Table::new(128).expect("a width");
        let place = Place::At("1".parse().expect("a prefix"));
        let create = Edit::Create { name: "r".to_string(), suffix: 127, place, start: Start::default() };
        let plan = table.plan(&create).expect("legal");
        table.apply(&plan).expect("applied");
        let region = table.get(RegionNumber(1)).expect("made");
        for suffix in [0, 1, u128::MAX >> 1] {
            let id = region.compose(suffix, 128).expect("a suffix");
            assert_eq!((id, region.decompose(id, 128)), (1 << 127 | suffix, Ok(suffix)));
        }
    }
}
