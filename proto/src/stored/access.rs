//! Records of tokens, roles and budgets.

use bytes::Bytes;
use core::num::NonZeroU64;

use kent_access::{
    Bound, Budget, BudgetId, Hash, Holder, LimitKind, Limits, Mark, Outdated, Place, Refused, Right, Role, Spent,
    Token, TokenId,
};
use prost::Message;

use super::{EditId, Malformed, decode, malformed};
use crate::records::{self, spent_record::MarkRecord, token_record};

/// Encodes the record of a token.
pub fn encode_token(token: &Token) -> Vec<u8> {
    let refused = match token.refused {
        None => token_record::Refused::No,
        // The record has no value for `Expired`, which follows from `expires`.
        Some(Refused::Revoked | Refused::Expired) => token_record::Refused::Revoked,
        Some(Refused::Restored) => token_record::Refused::Restored,
    };
    let hash = |hash: &Hash| Bytes::copy_from_slice(hash.bytes());
    let record = records::TokenRecord {
        name: token.name.clone(),
        rights: token.rights.iter().map(right_record).collect(),
        roles: token.roles.clone(),
        created: token.created,
        expires: token.expires,
        created_by: token.created_by.clone(),
        hash: hash(&token.hash),
        outdated_hash: token.outdated.map(|outdated| hash(&outdated.hash)).unwrap_or_default(),
        outdated_until: token.outdated.map_or(0, |outdated| outdated.until),
        refused: refused.into(),
        limits: limits_record(token.limits),
    };
    record.encode_to_vec()
}

/// Decodes a record written by [`encode_token`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_token(id: TokenId, value: &[u8]) -> Result<Token, Malformed> {
    let record: records::TokenRecord = decode(value, "the record of a token")?;
    let hash = |bytes: &[u8]| bytes.try_into().map(Hash::new).map_err(|_| malformed("the hash of a token"));
    let outdated = match record.outdated_hash.as_ref() {
        [] => None,
        bytes => Some(Outdated { hash: hash(bytes)?, until: record.outdated_until }),
    };
    let refused = match token_record::Refused::try_from(record.refused) {
        Ok(token_record::Refused::No) => None,
        Ok(token_record::Refused::Revoked) => Some(Refused::Revoked),
        Ok(token_record::Refused::Restored) => Some(Refused::Restored),
        Err(_) => return Err(malformed("the refusal state of a token")),
    };
    Ok(Token {
        id,
        rights: rights(record.rights)?,
        name: record.name,
        roles: record.roles,
        limits: limits(record.limits),
        created: record.created,
        expires: record.expires,
        created_by: record.created_by,
        hash: hash(&record.hash)?,
        outdated,
        refused,
    })
}

/// Encodes the record of a role.
pub fn encode_role(role: &Role) -> Vec<u8> {
    let rights = role.rights.iter().map(right_record).collect();
    let certificates = role.certificates.iter().map(String::from).collect();
    records::RoleRecord { rights, certificates, limits: limits_record(role.limits) }.encode_to_vec()
}

/// Decodes a record written by [`encode_role`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_role(name: &str, value: &[u8]) -> Result<Role, Malformed> {
    let record: records::RoleRecord = decode(value, "the record of a role")?;
    let certificates = record.certificates.iter().map(|pattern| pattern.parse());
    let certificates = certificates.collect::<Result<_, _>>().map_err(|_| malformed("the certificates of a role"))?;
    let limits = limits(record.limits);
    Ok(Role { name: name.to_owned(), rights: rights(record.rights)?, certificates, limits })
}

/// Encodes the record of a budget, without the holder and the ID, which are in the key.
pub fn encode_budget(budget: &Budget) -> Vec<u8> {
    records::BudgetRecord { right: Some(right_record(budget.right())), total: budget.total() }.encode_to_vec()
}

/// Decodes a record written by [`encode_budget`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_budget(id: BudgetId, holder: Holder, value: &[u8]) -> Result<Budget, Malformed> {
    let record: records::BudgetRecord = decode(value, "the record of a budget")?;
    let right = right(record.right.ok_or_else(|| malformed("the source of a budget"))?)?;
    Budget::new(id, holder, right, record.total).map_err(|_| malformed("the source of a budget"))
}

/// Encodes the record of the used part of a budget.
pub fn encode_spent(spent: &Spent) -> Vec<u8> {
    let [older, newer] = spent.marks.map(|mark| mark.map(|Mark { at, used }| MarkRecord { at, used }));
    records::SpentRecord { used: spent.used, older, newer, restored: spent.restored }.encode_to_vec()
}

/// Decodes a record written by [`encode_spent`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_spent(value: &[u8]) -> Result<Spent, Malformed> {
    let records::SpentRecord { used, older, newer, restored } = decode(value, "the record of a budget's use")?;
    let mark = |mark: Option<MarkRecord>| mark.map(|MarkRecord { at, used }| Mark { at, used });
    Ok(Spent { used, marks: [mark(older), mark(newer)], restored })
}

/// Encodes the record that every change of tokens, roles and budgets rewrites.
pub fn encode_access(last_change: EditId) -> Vec<u8> {
    records::AccessRecord { last_change: Bytes::copy_from_slice(&last_change.0) }.encode_to_vec()
}

/// Decodes a record written by [`encode_access`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_access(value: &[u8]) -> Result<EditId, Malformed> {
    let record: records::AccessRecord = decode(value, "the record of the last change of access")?;
    let last = record.last_change.as_ref().try_into().map_err(|_| malformed("the last change of access"))?;
    Ok(EditId(last))
}

fn right_record(right: &Right) -> records::RightRecord {
    let (space, region, first_name) = match right.bound() {
        Bound::Nothing => ("", None, ""),
        Bound::Space(key) => (key.as_str(), None, ""),
        Bound::Region(place) => (place.space.as_str(), Some(place.number), place.first_name.as_str()),
    };
    records::RightRecord {
        permission: right.permission().to_string(),
        space: space.to_owned(),
        region,
        first_name: first_name.to_owned(),
    }
}

fn limits_record(limits: Limits) -> Option<records::LimitsRecord> {
    let limit = |kind| limits.get(kind).map_or(0, NonZeroU64::get);
    (!limits.is_empty()).then(|| records::LimitsRecord {
        ids_per_second: limit(LimitKind::Ids),
        calls_per_second: limit(LimitKind::Calls),
        streams: limit(LimitKind::Streams),
        connections: limit(LimitKind::Connections),
    })
}

fn limits(record: Option<records::LimitsRecord>) -> Limits {
    let Some(record) = record else { return Limits::default() };
    let limits = [
        (LimitKind::Ids, record.ids_per_second),
        (LimitKind::Calls, record.calls_per_second),
        (LimitKind::Streams, record.streams),
        (LimitKind::Connections, record.connections),
    ];
    limits.into_iter().fold(Limits::default(), |limits, (kind, limit)| limits.with(kind, NonZeroU64::new(limit)))
}

fn rights(records: Vec<records::RightRecord>) -> Result<Vec<Right>, Malformed> {
    records.into_iter().map(right).collect()
}

fn right(record: records::RightRecord) -> Result<Right, Malformed> {
    let records::RightRecord { permission, space, region, first_name } = record;
    let bound = match (space.is_empty(), region) {
        (true, _) => Bound::Nothing,
        (false, None) => Bound::Space(space),
        (false, Some(number)) => Bound::Region(Place { space, number, first_name }),
    };
    let permission = permission.parse().map_err(|_| malformed("a permission"))?;
    Right::new(permission, bound).map_err(|_| malformed("the space or region of a permission"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights() -> Vec<Right> {
        let place = Place { space: "default".to_owned(), number: 7, first_name: "first".to_owned() };
        [
            ("admin:*", Bound::Nothing),
            ("edit:region:default/team-a-*", Bound::Space("default".to_owned())),
            ("allocate:region:default/orders", Bound::Region(place)),
        ]
        .map(|(text, bound)| Right::new(text.parse().expect("a permission"), bound).expect("bound"))
        .into()
    }

    #[test]
    fn ok_tokens_and_roles_survive_encoding_and_decoding() {
        let id = TokenId::new([1; 6]);
        let plain = Token {
            id,
            name: "orders".to_owned(),
            rights: rights(),
            roles: vec!["ops".to_owned()],
            limits: Limits::default(),
            created: 5,
            expires: None,
            created_by: "local".to_owned(),
            hash: Hash::new([1; 32]),
            outdated: None,
            refused: None,
        };
        let outdated = Some(Outdated { hash: Hash::new([2; 32]), until: 9 });
        let limits = "ids=1/s,calls=2/s,streams=3,connections=4".parse().expect("limits");
        for refused in [None, Some(Refused::Revoked), Some(Refused::Restored)] {
            for token in [plain.clone(), Token { expires: Some(10), outdated, refused, limits, ..plain.clone() }] {
                assert_eq!(decode_token(id, &encode_token(&token)), Ok(token));
            }
        }
        let certificates = ["spiffe://example/*", "orders.example"].map(|it| it.parse().expect("a name")).to_vec();
        for limits in [limits, Limits::default()] {
            let role = Role { name: "ops".to_owned(), rights: rights(), certificates: certificates.clone(), limits };
            assert_eq!(decode_role("ops", &encode_role(&role)), Ok(role));
        }
        assert_eq!(decode_access(&encode_access(EditId([3; 16]))), Ok(EditId([3; 16])));
    }

    #[test]
    fn ok_budgets_survive_encoding_and_decoding() {
        let (id, [_, _, right]) = (BudgetId::new([5; 8]), rights().try_into().expect("three rights"));
        for holder in [Holder::Token(TokenId::new([1; 6])), Holder::Role("ops".to_owned())] {
            let budget = Budget::new(id, holder.clone(), right.clone(), u64::MAX).expect("one source");
            assert_eq!(decode_budget(id, holder, &encode_budget(&budget)), Ok(budget));
        }
        let [older, newer] = [3, 7].map(|at| Some(Mark { at, used: 9 }));
        for marks in [[None, None], [None, newer], [older, newer]] {
            for restored in [None, Some(0)] {
                let spent = Spent { used: 11, marks, restored };
                assert_eq!(decode_spent(&encode_spent(&spent)), Ok(spent));
            }
        }
    }

    #[test]
    fn err_malformed_records_are_named() {
        let id = TokenId::new([1; 6]);
        assert_eq!(decode_token(id, b"\xff"), Err(malformed("the record of a token")));
        assert_eq!(decode_token(id, b""), Err(malformed("the hash of a token")));
        assert_eq!(decode_access(b""), Err(malformed("the last change of access")));
        let holder = Holder::Role("ops".to_owned());
        let budget = |value| decode_budget(BudgetId::new([5; 8]), holder.clone(), value);
        assert_eq!(budget(b""), Err(malformed("the source of a budget")));
        let wide = records::BudgetRecord { right: Some(right_record(&rights()[0])), total: 1 }.encode_to_vec();
        assert_eq!(budget(&wide), Err(malformed("the source of a budget")));
        assert_eq!(decode_spent(b"\xff"), Err(malformed("the record of a budget's use")));
        let unbound = records::RightRecord { permission: "edit:space:x".to_owned(), ..Default::default() };
        let role = records::RoleRecord { rights: vec![unbound], ..Default::default() }.encode_to_vec();
        assert_eq!(decode_role("ops", &role), Err(malformed("the space or region of a permission")));
    }
}
