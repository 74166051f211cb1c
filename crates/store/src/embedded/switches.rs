//! The operator's switches, and the hash chain of their audit trail.

use super::EmbeddedStore;
use super::codec::{Input, Output, STORE};
use super::rows::{Batch, Kind, Rows};
use crate::StoreError;
use crate::switches::{AuditRecord, ChangeDecision, ChangeOrder, SwitchState, Switches};
use seawall_core::evaluator::{Protection, Protections, Switch};
use seawall_core::vocabulary::Mode;
use std::ops::Bound;

const STATE_KEY: &[u8] = b"state";

/// Encodes the state of the switches and the number of audit records.
fn state_row(state: &SwitchState, records: u64) -> Vec<u8> {
    let mut output = Output::default().number(records).number(state.version).ceiling(state.ceiling);
    // A switch that is off masks the mode of its protection, so the modes are read with every switch on.
    let mut all_on = state.protections;
    for switch in Switch::ALL {
        output = output.byte(u8::from(state.protections.is_on(switch)));
        all_on.throw(switch, true);
    }
    for protection in Protection::ALL {
        output = output.place(all_on.mode(protection).index());
    }
    output.row()
}

fn read_state(rows: &mut impl Rows) -> Result<(SwitchState, u64), StoreError> {
    let Some(row) = rows.get(Kind::Switches, STATE_KEY)? else { return Ok((SwitchState::default(), 0)) };
    let mut input = Input::row("switches", &row)?;
    let (records, version, ceiling) = (input.number()?, input.number()?, input.ceiling()?);
    let mut protections = Protections::default();
    for switch in Switch::ALL {
        protections.throw(switch, input.word(&[false, true])?);
    }
    for protection in Protection::ALL {
        protections.set_mode(protection, input.word(&Mode::ALL)?);
    }
    input.end((SwitchState { protections, ceiling, version }, records))
}

fn record_key(number: u64) -> Vec<u8> {
    Output::default().number(number).key()
}

fn record_row(record: &AuditRecord) -> Vec<u8> {
    Output::default().fixed(&record.hash).fixed(&record.encode()).row()
}

fn read_record(row: &[u8]) -> Result<AuditRecord, StoreError> {
    let mut input = Input::row("trail", row)?;
    let hash: [u8; 32] = input.fixed()?;
    let record = AuditRecord::decode(input.rest());
    record
        .filter(|record| record.hash == hash)
        .ok_or_else(|| StoreError::broken(STORE, "a record of the trail is not what its hash says"))
}

fn order(batch: &mut Batch<'_>, order: ChangeOrder, seen: u64) -> Result<ChangeDecision, StoreError> {
    let (state, records) = read_state(batch)?;
    if !order.refused && state.version != seen {
        return Ok(ChangeDecision::Outdated(state));
    }
    let last = match records.checked_sub(1) {
        None => None,
        Some(last) => {
            let missing = || StoreError::broken(STORE, "the last record of the trail is gone");
            Some(read_record(&batch.get(Kind::Trail, &record_key(last))?.ok_or_else(missing)?)?)
        }
    };
    if batch.get(Kind::Trail, &record_key(records))?.is_some() {
        return Err(StoreError::broken(STORE, "the trail has more records than were counted"));
    }
    let state = state.after(&order);
    let record = AuditRecord::after(last.as_ref(), order);
    batch.put(Kind::Trail, &record_key(record.number), &record_row(&record))?;
    batch.put(Kind::Switches, STATE_KEY, &state_row(&state, records.saturating_add(1)))?;
    Ok(ChangeDecision::Recorded(state))
}

impl Switches for EmbeddedStore {
    async fn read(&self) -> Result<SwitchState, StoreError> {
        self.read(read_state).map(|(state, _)| state)
    }

    async fn order(&self, ordered: &ChangeOrder, seen: u64) -> Result<ChangeDecision, StoreError> {
        let ordered = ordered.clone();
        self.write(move |batch, _| order(batch, ordered, seen)).await
    }

    async fn trail(&self, from: u64, most: usize) -> Result<Vec<AuditRecord>, StoreError> {
        let first = record_key(from);
        let bounds = (Bound::Included(first.as_slice()), Bound::Unbounded);
        let rows = self.read(|view| view.range(Kind::Trail, bounds, most))?;
        rows.iter().map(|(_, row)| read_record(row)).collect()
    }
}
