//! Policies of regions in messages.

use kent_ids::Stride;
use kent_regions::{AutoExpand, BITS_MAX, ChunkPolicy, Count, Policy, PolicyPatch};
use prost_types::FieldMask;

use super::{
    Invalid,
    range::inner,
    stride::{stride, stride_from},
};
use crate::v1;

/// Returns the changes of a policy: the parts that the mask names or, without a mask, the parts that `policy` sets.
pub(super) fn policy_patch(policy: Option<v1::Policy>, mask: Option<FieldMask>) -> Result<PolicyPatch, Invalid> {
    let policy = policy.unwrap_or_default();
    let [mut auto_expand, mut cap, mut chunk, mut strict, mut stride] = [
        policy.auto_expand.is_some(),
        !policy.cap.is_empty(),
        policy.min_chunk != 0 || policy.max_chunk != 0,
        policy.strict,
        policy.stride.is_some(),
    ];
    // An empty mask counts as absent, as in AIP-134.
    if let Some(FieldMask { paths }) = mask.filter(|mask| !mask.paths.is_empty()) {
        let named = |names: &[&str]| paths.iter().any(|path| path == "*" || names.contains(&path.as_str()));
        const PARTS: [&str; 7] = ["auto_expand", "cap", "min_chunk", "max_chunk", "strict", "stride", "*"];
        if let Some(unknown) = paths.iter().find(|path| !PARTS.contains(&path.as_str())) {
            let problem = format!("names {unknown:?}, but the parts are {}", PARTS.join(", "));
            return Err(Invalid::new("policy_mask", problem));
        }
        (auto_expand, cap) = (named(&["auto_expand"]), named(&["cap"]));
        (chunk, strict, stride) = (named(&["min_chunk", "max_chunk"]), named(&["strict"]), named(&["stride"]));
    }
    let given = PolicyPatch::to(&policy_input(policy)?);
    Ok(PolicyPatch {
        auto_expand: given.auto_expand.filter(|_| auto_expand),
        cap: given.cap.filter(|_| cap),
        bounds: given.bounds.filter(|_| chunk),
        strict: given.strict.filter(|_| strict),
        stride: given.stride.filter(|_| stride),
    })
}

pub(super) fn policy_input(policy: v1::Policy) -> Result<Policy, Invalid> {
    const FIELD: &str = "policy";
    let auto_expand = |auto: v1::AutoExpand| {
        let max = if auto.max_suffix_bits == 0 { BITS_MAX.into() } else { auto.max_suffix_bits };
        Ok(AutoExpand {
            at_percent: inner(FIELD, "at_percent", auto.at_percent)?,
            by_bits: inner(FIELD, "by_bits", auto.by_bits)?,
            max_suffix: inner(FIELD, "max_suffix_bits", max)?,
        })
    };
    let cap = match policy.cap.as_str() {
        "" => None,
        digits => {
            let cap =
                digits.parse().map_err(|_| Invalid::new(FIELD, "the cap must be a decimal number below 2^128"))?;
            Some(Count::Below(cap))
        }
    };
    let chunk = match (policy.strict, policy.min_chunk, policy.max_chunk) {
        (true, 0, 0) => ChunkPolicy::Strict,
        (true, ..) => {
            return Err(Invalid::new(FIELD, "a strict region reserves no chunks: omit min_chunk and max_chunk"));
        }
        (false, 0, 0) => ChunkPolicy::Adaptive,
        (false, min, 0) => ChunkPolicy::Within { min, max: min.max(CHUNK_MAX) },
        (false, min, max) => ChunkPolicy::Within { min: min.max(1), max },
    };
    let stride = match policy.stride {
        Some(v1::Stride { step: 0 | 1, .. }) => None,
        Some(stride) => stride_from(stride),
        None => Some(Stride::EVERY),
    };
    let stride = stride.ok_or_else(|| {
        Invalid::new(FIELD, "the step must be 2 to 65535, and the offset below the step, as in --step 2 --offset 1; to issue every number, use neither (--no-step)")
    })?;
    Ok(Policy { auto_expand: policy.auto_expand.map(auto_expand).transpose()?, cap, chunk, stride })
}

/// The default of max_chunk if a policy has only min_chunk.
const CHUNK_MAX: u64 = 1 << 20;

/// Converts a policy to its message.
pub(super) fn policy(policy: &Policy) -> v1::Policy {
    let (min_chunk, max_chunk, strict) = match policy.chunk {
        ChunkPolicy::Adaptive => (0, 0, false),
        ChunkPolicy::Within { min, max } => (min, max, false),
        ChunkPolicy::Strict => (0, 0, true),
    };
    v1::Policy {
        auto_expand: policy.auto_expand.map(|auto| v1::AutoExpand {
            at_percent: auto.at_percent.into(),
            by_bits: auto.by_bits.into(),
            max_suffix_bits: auto.max_suffix.into(),
        }),
        cap: policy.cap.map(|cap| cap.to_string()).unwrap_or_default(),
        min_chunk,
        max_chunk,
        strict,
        stride: stride(policy.stride),
    }
}
