//! The directory of known callers, by credential.

use super::EmbeddedStore;
use super::codec::{RowDecoder, RowEncoder};
use super::rows::{Batch, Rows, TableKind};
use crate::directory::{AddDecision, CallerRecord, CredentialHash, Directory};
use crate::{StoreError, StoreFuture};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};
use std::ops::Bound;

fn row(record: &CallerRecord) -> Vec<u8> {
    RowEncoder::default()
        .u64(record.caller)
        .text(&record.name)
        .tier(record.tier)
        .ceiling(record.ceiling)
        .time(record.created)
        .optional(record.revoked.map(UtcTime::as_nanos))
        .row()
}

fn read_row(row: &[u8]) -> Result<CallerRecord, StoreError> {
    let mut input = RowDecoder::row("callers", row)?;
    let (caller, name, tier) = (input.u64()?, input.text()?.into(), input.choice(&Tier::ALL)?);
    let (ceiling, created) = (input.ceiling()?, input.time()?);
    let revoked = input.optional()?.map(UtcTime::from_nanos);
    input.end(CallerRecord { caller, name, tier, ceiling, created, revoked })
}

fn find(rows: &mut impl Rows, credential: &CredentialHash) -> Result<Option<CallerRecord>, StoreError> {
    rows.get(TableKind::Callers, &credential.0)?.map(|row| read_row(&row)).transpose()
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
            let work = move |batch: &mut Batch<'_>| {
                if batch.get(TableKind::Callers, &credential.0)?.is_some() {
                    return Ok(AddDecision::AlreadyExists);
                }
                batch.put(TableKind::Callers, &credential.0, &row)?;
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

    fn entitle<'a>(
        &'a self,
        credential: &'a CredentialHash,
        tier: Tier,
        ceiling: Option<Ceiling>,
    ) -> StoreFuture<'a, bool> {
        StoreFuture::boxed(async move {
            let credential = *credential;
            let how = move |record: &mut CallerRecord| (record.tier, record.ceiling) = (tier, ceiling);
            self.write(move |batch, _| change(batch, &credential, how)).await
        })
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
