//! The directory of known callers, by credential.

use super::EmbeddedStore;
use super::codec::{RowDecoder, RowEncoder};
use super::rows::{Batch, Rows, TableKind};
use crate::directory::{AddDecision, CallerRecord, CredentialHash, Directory, KeyContract};
use crate::usage::KeyLabels;
use crate::{StoreError, StoreFuture};
use seawall_core::budget::{BudgetPeriod, PeriodCaps};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeSet;
use std::ops::Bound;

fn row(record: &CallerRecord) -> Vec<u8> {
    RowEncoder::default()
        .u64(record.caller)
        .text(&record.name)
        .tier(record.tier)
        .ceiling(record.ceiling)
        .time(record.created)
        .optional(record.revoked.map(UtcTime::as_nanos))
        .bytes(&contract_bytes(&record.contract))
        .row()
}

/// A contract without any term has no bytes, as records had from before there were contracts.
fn contract_bytes(contract: &KeyContract) -> Vec<u8> {
    if *contract == KeyContract::default() {
        return Vec::new();
    }
    let KeyContract { labels: KeyLabels { team, tags }, expires, budgets, limits, models } = contract;
    let texts = |output: RowEncoder, texts: &[Box<str>]| {
        texts.iter().fold(output.u64(texts.len() as u64), |output, text| output.text(text))
    };
    let output = match team {
        None => RowEncoder::default().byte(0),
        Some(team) => RowEncoder::default().byte(1).text(team),
    };
    let output = tags
        .iter()
        .fold(output.u64(tags.len() as u64), |output, (name, value)| output.text(name).text(value));
    let output = output.optional(expires.map(UtcTime::as_nanos)).u64(budgets.iter().count() as u64);
    let output = budgets.iter().fold(output, |output, (period, cap)| output.index(period.index()).money(cap));
    texts(texts(output, limits), models).key()
}

fn read_contract(input: &mut RowDecoder<'_>) -> Result<KeyContract, StoreError> {
    if input.is_at_end() {
        return Ok(KeyContract::default());
    }
    // Without preallocated capacities: a damaged length would allocate all memory.
    fn texts(input: &mut RowDecoder<'_>) -> Result<Vec<Box<str>>, StoreError> {
        (0..input.u64()?).map(|_| Ok(input.text()?.into())).collect()
    }
    let team = if input.choice(&[false, true])? { Some(input.text()?.into()) } else { None };
    let tags: Result<Vec<_>, StoreError> =
        (0..input.u64()?).map(|_| Ok((input.text()?.into(), input.text()?.into()))).collect();
    let expires = input.optional()?.map(UtcTime::from_nanos);
    let budgets: Result<PeriodCaps, StoreError> =
        (0..input.u64()?).map(|_| Ok((input.choice(&BudgetPeriod::ALL)?, input.money()?))).collect();
    let labels = KeyLabels { team, tags: tags?.into() };
    Ok(KeyContract { labels, expires, budgets: budgets?, limits: texts(input)?, models: texts(input)? })
}

fn read_row(row: &[u8]) -> Result<CallerRecord, StoreError> {
    let mut input = RowDecoder::row("callers", row)?;
    let (caller, name, tier) = (input.u64()?, input.text()?.into(), input.choice(&Tier::ALL)?);
    let (ceiling, created) = (input.ceiling()?, input.time()?);
    let revoked = input.optional()?.map(UtcTime::from_nanos);
    let contract = read_contract(&mut input)?;
    input.end(CallerRecord { caller, name, tier, ceiling, created, revoked, contract })
}

fn find(rows: &mut impl Rows, credential: &CredentialHash) -> Result<Option<CallerRecord>, StoreError> {
    rows.get(TableKind::Callers, &credential.0)?.map(|row| read_row(&row)).transpose()
}

/// Ends a name in a key. No text contains this byte.
const NAME_END: u8 = 0xff;

fn name_key(name: &str) -> RowEncoder {
    RowEncoder::default().bytes(name.as_bytes()).byte(NAME_END)
}

/// Adds the names of callers from before they were indexed.
pub(super) fn index_names(batch: &mut Batch<'_>) -> Result<(), StoreError> {
    for (credential, row) in
        batch.range(TableKind::Callers, (Bound::Unbounded, Bound::Unbounded), usize::MAX)?
    {
        let name = name_key(&read_row(&row)?.name).bytes(&credential).key();
        batch.put(TableKind::CallerNames, &name, &[])?;
    }
    Ok(())
}

fn named(rows: &mut impl Rows, name: &str) -> Result<Vec<(CredentialHash, CallerRecord)>, StoreError> {
    let prefix = name_key(name).key();
    let mut found = Vec::new();
    for (key, _) in rows.with_prefix(TableKind::CallerNames, &prefix, usize::MAX)? {
        let mut input = RowDecoder::key("caller_names", &key[prefix.len()..]);
        let credential = input.array()?;
        let credential = CredentialHash(input.end(credential)?);
        found.extend(find(rows, &credential)?.map(|record| (credential, record)));
    }
    Ok(found)
}

/// The different lists of rate limits of keys that are not revoked.
pub(super) fn key_limits(rows: &mut impl Rows) -> Result<BTreeSet<Vec<Box<str>>>, StoreError> {
    let mut all = BTreeSet::new();
    for (_, row) in rows.range(TableKind::Callers, (Bound::Unbounded, Bound::Unbounded), usize::MAX)? {
        let record = read_row(&row)?;
        if record.revoked.is_none() && !record.contract.limits.is_empty() {
            all.insert(record.contract.limits);
        }
    }
    Ok(all)
}

/// Changes a caller, if it is known.
fn change(
    batch: &mut Batch<'_>,
    credential: &CredentialHash,
    how: impl FnOnce(&mut CallerRecord),
) -> Result<bool, StoreError> {
    let Some(mut record) = find(batch, credential)? else { return Ok(false) };
    how(&mut record);
    batch.put(TableKind::Callers, &credential.0, &row(&record))?;
    Ok(true)
}

impl Directory for EmbeddedStore {
    fn find<'a>(&'a self, credential: &'a CredentialHash) -> StoreFuture<'a, Option<CallerRecord>> {
        StoreFuture::run(|| self.read(|view| find(view, credential)))
    }

    fn add<'a>(
        &'a self,
        credential: &'a CredentialHash,
        record: &'a CallerRecord,
    ) -> StoreFuture<'a, AddDecision> {
        StoreFuture::boxed(async move {
            let (credential, row) = (*credential, row(record));
            let name = name_key(&record.name).bytes(&credential.0).key();
            let work = move |batch: &mut Batch<'_>| {
                if batch.get(TableKind::Callers, &credential.0)?.is_some() {
                    return Ok(AddDecision::AlreadyExists);
                }
                batch.put(TableKind::Callers, &credential.0, &row)?;
                batch.put(TableKind::CallerNames, &name, &[])?;
                Ok(AddDecision::Added)
            };
            self.write(move |batch, _| work(batch)).await
        })
    }

    fn revoke<'a>(&'a self, credential: &'a CredentialHash, at: UtcTime) -> StoreFuture<'a, bool> {
        StoreFuture::boxed(async move {
            let credential = *credential;
            let how = move |record: &mut CallerRecord| {
                record.revoked.get_or_insert(at);
            };
            self.write(move |batch, _| change(batch, &credential, how)).await
        })
    }

    fn update<'a>(
        &'a self,
        credential: &'a CredentialHash,
        record: &'a CallerRecord,
    ) -> StoreFuture<'a, bool> {
        StoreFuture::boxed(async move {
            let (credential, update) = (*credential, record.clone());
            let work = move |batch: &mut Batch<'_>| {
                let Some(before) = find(batch, &credential)? else { return Ok(false) };
                batch.remove(TableKind::CallerNames, &name_key(&before.name).bytes(&credential.0).key())?;
                let name = name_key(&update.name).bytes(&credential.0).key();
                batch.put(TableKind::CallerNames, &name, &[])?;
                change(batch, &credential, |record| record.apply(&update))
            };
            self.write(move |batch, _| work(batch)).await
        })
    }

    fn named<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Vec<(CredentialHash, CallerRecord)>> {
        StoreFuture::run(|| self.read(|view| named(view, name)))
    }

    fn list(
        &self,
        after: Option<CredentialHash>,
        max: usize,
    ) -> StoreFuture<'_, Vec<(CredentialHash, CallerRecord)>> {
        StoreFuture::run(|| {
            let first = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.0.as_slice()));
            let rows = self.read(|view| view.range(TableKind::Callers, (first, Bound::Unbounded), max))?;
            let read = |(key, row): &(Vec<u8>, Vec<u8>)| {
                let mut input = RowDecoder::key("callers", key);
                let credential = input.array()?;
                Ok((CredentialHash(input.end(credential)?), read_row(row)?))
            };
            rows.iter().map(read).collect()
        })
    }
}
