//! The operator's switches, and the hash chain of their audit trail.

use super::EmbeddedStore;
use super::codec::{RowDecoder, RowEncoder, STORE};
use super::data_dir::DATABASE_FILE;
use super::rows::{Batch, Rows, TableKind};
use crate::switches::{AuditRecord, ChangeDecision, ChangeOrder, SwitchState, Switches};
use crate::{StoreError, StoreFuture};
use seawall_core::evaluator::{Protection, Protections, Switch};
use seawall_core::vocabulary::Mode;
use std::ops::Bound;

const STATE_KEY: &[u8] = b"state";

/// Encodes the state of the switches and the number of audit records.
fn state_row(state: &SwitchState, records: u64) -> Vec<u8> {
    let mut output = RowEncoder::default().u64(records).u64(state.version).ceiling(state.ceiling);
    // A switch that is off masks the mode of its protection, so the modes are read with every switch on.
    let mut all_on = state.protections;
    for switch in Switch::ALL {
        output = output.byte(u8::from(state.protections.is_on(switch)));
        all_on.set_switch(switch, true);
    }
    for protection in Protection::ALL {
        output = output.index(all_on.mode(protection).index());
    }
    output.row()
}

fn read_state(rows: &mut impl Rows) -> Result<(SwitchState, u64), StoreError> {
    let Some(row) = rows.get(TableKind::Switches, STATE_KEY)? else { return Ok((SwitchState::default(), 0)) };
    let mut input = RowDecoder::row("switches", &row)?;
    let (records, version, ceiling) = (input.u64()?, input.u64()?, input.ceiling()?);
    let mut protections = Protections::default();
    for switch in Switch::ALL {
        protections.set_switch(switch, input.choice(&[false, true])?);
    }
    for protection in Protection::ALL {
        protections.set_mode(protection, input.choice(&Mode::ALL)?);
    }
    input.end((SwitchState { protections, ceiling, version }, records))
}

fn record_key(number: u64) -> Vec<u8> {
    RowEncoder::default().u64(number).key()
}

fn record_row(record: &AuditRecord) -> Vec<u8> {
    RowEncoder::default().bytes(&record.hash).bytes(&record.encode()).row()
}

fn read_record(row: &[u8]) -> Result<AuditRecord, StoreError> {
    let mut input = RowDecoder::row("trail", row)?;
    let hash: [u8; 32] = input.array()?;
    let record = AuditRecord::decode(input.rest());
    record
        .filter(|record| record.hash == hash)
        .ok_or_else(|| damaged_trail("a record does not match its hash"))
}

fn damaged_trail(problem: &str) -> StoreError {
    let reason = format_args!(
        "audit trail in {DATABASE_FILE}: {problem} (changed or damaged); keep a copy of the data directory and restore a backup"
    );
    StoreError::failed(STORE, reason)
}

fn apply(
    batch: &mut Batch<'_>,
    order: ChangeOrder,
    expected_version: u64,
) -> Result<ChangeDecision, StoreError> {
    let (state, records) = read_state(batch)?;
    if !order.refused && state.version != expected_version {
        return Ok(ChangeDecision::Outdated(state));
    }
    let last = match records.checked_sub(1) {
        None => None,
        Some(last) => {
            let missing = || damaged_trail("the last record is missing");
            Some(read_record(&batch.get(TableKind::Trail, &record_key(last))?.ok_or_else(missing)?)?)
        }
    };
    if batch.get(TableKind::Trail, &record_key(records))?.is_some() {
        return Err(damaged_trail("there are more records than counted"));
    }
    let state = state.after(&order);
    let record = AuditRecord::after(last.as_ref(), order);
    batch.put(TableKind::Trail, &record_key(record.number), &record_row(&record))?;
    batch.put(TableKind::Switches, STATE_KEY, &state_row(&state, records.saturating_add(1)))?;
    Ok(ChangeDecision::Recorded(state))
}

impl Switches for EmbeddedStore {
    fn read(&self) -> StoreFuture<'_, SwitchState> {
        StoreFuture::run(|| self.read(read_state).map(|(state, _)| state))
    }

    fn apply<'a>(&'a self, order: &'a ChangeOrder, expected_version: u64) -> StoreFuture<'a, ChangeDecision> {
        StoreFuture::boxed(async move {
            let order = order.clone();
            self.write(move |batch, _| apply(batch, order, expected_version)).await
        })
    }

    fn trail(&self, from: u64, max: usize) -> StoreFuture<'_, Vec<AuditRecord>> {
        StoreFuture::run(|| {
            let first = record_key(from);
            let bounds = (Bound::Included(first.as_slice()), Bound::Unbounded);
            let rows = self.read(|view| view.range(TableKind::Trail, bounds, max))?;
            rows.iter().map(|(_, row)| read_record(row)).collect()
        })
    }
}
