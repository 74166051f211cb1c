//! CloudWatch: PutMetricData in CBOR.

use super::{FakeResponse, Refusal, response};
use crate::fake::state::FakeState;
use aws_smithy_cbor::Decoder;
use aws_smithy_cbor::data::Type;
use serde_json::{Map, Value, json};

/// Stores the measurements of a request.
pub(super) fn put_metric_data(state: &mut FakeState, body: &[u8]) -> Result<FakeResponse, Refusal> {
    if state.sinks_are_down {
        return Err(Refusal::new(503, "ServiceUnavailable", "the sink is down"));
    }
    let malformed = || Refusal::new(400, "SerializationException", "the body is not CBOR");
    let request = read(&mut Decoder::new(body), 0).ok_or_else(malformed)?;
    let Some(data) = request["MetricData"].as_array() else {
        return Err(Refusal::new(400, "MissingParameter", "MetricData is missing"));
    };
    state.metric_batches.push(data.len());
    for datum in data {
        let mut datum = datum.clone();
        datum["Namespace"] = request["Namespace"].clone();
        state.metrics.push(datum);
    }
    let mut accepted = response(200, "application/cbor", vec![0xa0]);
    accepted.headers_mut().insert("smithy-protocol", hyper::header::HeaderValue::from_static("rpc-v2-cbor"));
    Ok(accepted)
}

fn read(decoder: &mut Decoder<'_>, depth: u8) -> Option<Value> {
    if depth > 16 {
        return None;
    }
    match decoder.datatype().ok()? {
        Type::Map | Type::MapIndef => {
            let length = decoder.map().ok()?;
            let mut map = Map::new();
            while has_next(decoder, length, map.len() as u64)? {
                let key = decoder.str().ok()?.into_owned();
                map.insert(key, read(decoder, depth + 1)?);
            }
            Some(Value::Object(map))
        }
        Type::Array | Type::ArrayIndef => {
            let length = decoder.list().ok()?;
            let mut list = Vec::new();
            while has_next(decoder, length, list.len() as u64)? {
                list.push(read(decoder, depth + 1)?);
            }
            Some(Value::Array(list))
        }
        Type::String | Type::StringIndef => Some(Value::String(decoder.string().ok()?)),
        Type::F16 | Type::F32 | Type::F64 => Some(json!(decoder.double().ok()?)),
        Type::Bool => Some(json!(decoder.boolean().ok()?)),
        Type::Tag => Some(json!(decoder.timestamp().ok()?.to_millis().ok()?)),
        Type::Null | Type::Undefined => decoder.skip().ok().map(|()| Value::Null),
        _ => Some(json!(decoder.long().ok()?)),
    }
}

/// Whether a collection has another element; consumes the end mark of one without a length.
fn has_next(decoder: &mut Decoder<'_>, length: Option<u64>, read: u64) -> Option<bool> {
    match length {
        Some(length) => Some(read < length),
        None if decoder.datatype().ok()? == Type::Break => {
            decoder.skip().ok()?;
            Some(false)
        }
        None => Some(true),
    }
}
