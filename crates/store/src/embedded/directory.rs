//! The directory of known callers, by credential.

use super::EmbeddedStore;
use super::codec::{Input, Output};
use super::rows::{Batch, Kind, Rows};
use crate::StoreError;
use crate::directory::{AddDecision, CallerRecord, CredentialHash, Directory};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};
use std::ops::Bound;

fn row(record: &CallerRecord) -> Vec<u8> {
    Output::default()
        .number(record.caller)
        .text(&record.name)
        .tier(record.tier)
        .ceiling(record.clamp)
        .moment(record.created)
        .optional(record.revoked.map(UtcTime::as_nanos))
        .row()
}

fn read_row(row: &[u8]) -> Result<CallerRecord, StoreError> {
    let mut input = Input::row("callers", row)?;
    let (caller, name, tier) = (input.number()?, input.text()?.into(), input.word(&Tier::ALL)?);
    let (clamp, created) = (input.ceiling()?, input.moment()?);
    let revoked = input.optional()?.map(UtcTime::from_nanos);
    input.end(CallerRecord { caller, name, tier, clamp, created, revoked })
}

fn find(rows: &mut impl Rows, credential: &CredentialHash) -> Result<Option<CallerRecord>, StoreError> {
    rows.get(Kind::Callers, &credential.0)?.map(|row| read_row(&row)).transpose()
}

/// Changes a caller, if it is known.
fn change(
    batch: &mut Batch<'_>,
    credential: &CredentialHash,
    how: impl FnOnce(&mut CallerRecord),
) -> Result<bool, StoreError> {
    let Some(mut record) = find(batch, credential)? else { return Ok(false) };
    how(&mut record);
    batch.put(Kind::Callers, &credential.0, &row(&record))?;
    Ok(true)
}

impl Directory for EmbeddedStore {
    async fn find(&self, credential: &CredentialHash) -> Result<Option<CallerRecord>, StoreError> {
        self.read(|view| find(view, credential))
    }

    async fn add(
        &self,
        credential: &CredentialHash,
        record: &CallerRecord,
    ) -> Result<AddDecision, StoreError> {
        let (credential, row) = (*credential, row(record));
        let work = move |batch: &mut Batch<'_>| {
            if batch.get(Kind::Callers, &credential.0)?.is_some() {
                return Ok(AddDecision::Known);
            }
            batch.put(Kind::Callers, &credential.0, &row)?;
            Ok(AddDecision::Added)
        };
        self.write(move |batch, _| work(batch)).await
    }

    async fn revoke(&self, credential: &CredentialHash, at: UtcTime) -> Result<bool, StoreError> {
        let credential = *credential;
        let how = move |record: &mut CallerRecord| {
            record.revoked.get_or_insert(at);
        };
        self.write(move |batch, _| change(batch, &credential, how)).await
    }

    async fn entitle(
        &self,
        credential: &CredentialHash,
        tier: Tier,
        clamp: Option<Ceiling>,
    ) -> Result<bool, StoreError> {
        let credential = *credential;
        let how = move |record: &mut CallerRecord| (record.tier, record.clamp) = (tier, clamp);
        self.write(move |batch, _| change(batch, &credential, how)).await
    }

    async fn list(
        &self,
        after: Option<CredentialHash>,
        most: usize,
    ) -> Result<Vec<(CredentialHash, CallerRecord)>, StoreError> {
        let first = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.0.as_slice()));
        let rows = self.read(|view| view.range(Kind::Callers, (first, Bound::Unbounded), most))?;
        let read = |(key, row): &(Vec<u8>, Vec<u8>)| {
            let mut input = Input::key("callers", key);
            let credential = input.fixed()?;
            Ok((CredentialHash(input.end(credential)?), read_row(row)?))
        };
        rows.iter().map(read).collect()
    }
}
